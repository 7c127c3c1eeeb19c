"""What is encoded is decoded unchanged; nothing else is decoded at all, and nothing raises anything unexpected."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from barymesh.transport import wire
from barymesh.transport.wire import BadMessageError, Message, Reason, decode, encode

WIDTH = 5
VECTOR = np.arange(5) / 3
FRAME = encode("run", 7, 2, 30, VECTOR)


def refusal(frame, width=WIDTH):
    with pytest.raises(BadMessageError) as caught:
        decode(frame, width)
    return caught.value.reason


def packed(**changed):
    """A frame with other fields than a peer would send."""
    fields = dict(zip(Message.__struct_fields__, msgspec.msgpack.decode(FRAME), strict=True))
    return msgspec.msgpack.encode(list((fields | changed).values()))


@given(
    vector=npst.arrays(np.float64, st.integers(1, 50), elements=st.floats(allow_nan=False)),
    sender=st.integers(0, 2**63 - 1),
    incarnation=st.integers(0, 2**63 - 1),
    sequence=st.integers(0, 2**63 - 1),
    run=st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=wire.RUN_LENGTH),
)
def test_a_message_arrives_as_it_was_sent(vector, sender, incarnation, sequence, run):
    frame = encode(run, sender, incarnation, sequence, vector)
    assert len(frame) <= wire.frame_limit(vector.size)
    message = decode(frame, vector.size)
    assert (message.run, message.sender, message.mark) == (run, sender, (incarnation, sequence))
    np.testing.assert_array_equal(message.vector(), vector)


def test_single_precision_takes_half_the_bytes():
    frame = encode("run", 7, 2, 30, VECTOR, "f4")
    message = decode(frame, WIDTH)
    assert len(FRAME) - len(frame) == 4 * WIDTH
    assert message.vector().dtype == np.float64
    np.testing.assert_array_equal(message.vector(), VECTOR.astype(np.float32))


def test_numbers_are_little_endian():
    payload = decode(encode("run", 7, 2, 30, [1.0]), 1).payload
    assert payload == bytes.fromhex("000000000000f03f")


def test_integers_of_numpy_are_sent_too():
    assert decode(encode("run", np.int64(7), np.int32(2), np.uint8(30), VECTOR), WIDTH) == decode(FRAME, WIDTH)


def test_what_is_received_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        decode(FRAME, WIDTH).vector()[0] = 1


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"version": 2}, Reason.VERSION),
        ({"version": "1"}, Reason.MALFORMED),
        ({"run": b"run"}, Reason.MALFORMED),
        ({"run": "r" * 65}, Reason.MALFORMED),
        ({"sender": -1}, Reason.MALFORMED),
        ({"sender": 1.5}, Reason.MALFORMED),
        ({"sender": True}, Reason.MALFORMED),
        ({"sequence": 2**63}, Reason.MALFORMED),
        ({"incarnation": None}, Reason.MALFORMED),
        ({"dtype": "i8"}, Reason.DTYPE),
        ({"dtype": "O"}, Reason.DTYPE),
        ({"dtype": "f4"}, Reason.MALFORMED),
        ({"length": 4}, Reason.MALFORMED),
        ({"length": 4, "payload": bytes(32)}, Reason.WIDTH),
        ({"length": 0, "payload": b""}, Reason.WIDTH),
        ({"length": 2**60}, Reason.MALFORMED),
        ({"payload": "x" * 40}, Reason.MALFORMED),
        ({"payload": [1.0] * 5}, Reason.MALFORMED),
        ({"more": 1}, Reason.MALFORMED),
        ({"version": 2, "more": [1, {"a": 2}]}, Reason.VERSION),
    ],
)
def test_other_fields_are_refused(changed, reason):
    assert refusal(packed(**changed)) is reason


def test_a_long_frame_is_refused_before_it_is_read(monkeypatch):
    monkeypatch.setattr(wire, "_decoder", None)
    assert refusal(bytes(10**7)) is Reason.TOO_LONG


def test_the_error_names_reason_and_value():
    with pytest.raises(BadMessageError, match=r"another number of values than the run's \(5 values, expected 6\)"):
        decode(FRAME, 6)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x91" * 5000,
        b"\x92\x02" + b"\x91" * 5000,
        b"\x98\x01\xc6\xff\xff\xff\xff",
        b"\xdd\xff\xff\xff\xff\x01",
        b"\x98\x01\xa3\xff\xfe\xfd" + FRAME[6:],
        b"\x80",
        FRAME + b"\x00",
        FRAME[:-1],
    ],
)
def test_nesting_lies_about_lengths_and_bad_text_are_refused(frame):
    assert refusal(frame, 1000) is Reason.MALFORMED


@given(st.binary(max_size=300))
def test_random_bytes_are_refused(frame):
    assert refusal(frame) in Reason


@given(st.lists(st.tuples(st.integers(0, len(FRAME) - 1), st.integers(0, 255)), min_size=1, max_size=4), st.data())
def test_a_damaged_frame_is_refused_or_still_well_formed(changes, data):
    frame = bytearray(FRAME)
    for place, value in changes:
        frame[place] = value
    frame = bytes(frame[: data.draw(st.integers(0, len(frame)))])
    try:
        message = decode(frame, WIDTH)
    except BadMessageError:
        return
    assert message.vector().shape == (WIDTH,)
    assert encode(message.run, message.sender, *message.mark, message.values(), message.dtype) == frame
