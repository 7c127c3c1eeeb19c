"""What is encoded is decoded unchanged; anything else is refused, and nothing raises an unexpected error."""

from __future__ import annotations

import struct
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from barymesh.transport import wire
from barymesh.transport.handshake import Reply
from barymesh.transport.wire import (
    HEADER_BYTES,
    VERSION,
    VERSIONS,
    BadMessageError,
    MessageFormat,
    Reason,
    encode,
    frame_bytes,
    run_digest,
)

WIDTH = 5
VECTOR = np.arange(5) / 3
LARGE = np.full(WIDTH, np.inf)
FORMAT = MessageFormat("run", -LARGE, LARGE, slice(1, 3))
FRAME = encode("run", 7, 2, 30, VECTOR, with_private=True)
PUBLIC_FRAME = encode("run", 7, 2, 30, VECTOR[[0, 3, 4]])
numbers = st.integers(0, 2**63 - 1)


def refusal(frame, message_format=FORMAT):
    with pytest.raises(BadMessageError) as caught:
        message_format.decode(frame)
    return caught.value.reason


def packed(
    magic=b"bary", version=3, flags=1, digest=None, sender=7, length=5, incarnation=2, sequence=30, payload=None
):
    """A frame with other fields than a peer would send, by the layout as it is documented."""
    header = struct.pack(
        "<4sHH16sIIQQ", magic, version, flags, digest or run_digest("run"), sender, length, incarnation, sequence
    )
    return header + (VECTOR.tobytes() if payload is None else payload)


@given(
    vector=npst.arrays(np.float64, st.integers(1, 50), elements=st.floats(allow_nan=False, allow_infinity=False)),
    sender=st.integers(0, 2**32 - 1),
    incarnation=numbers,
    sequence=numbers,
    run=st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=wire.RUN_LENGTH),
    data=st.data(),
)
def test_a_message_arrives_as_it_was_sent(vector, sender, incarnation, sequence, run, data):
    start = data.draw(st.integers(0, vector.size))
    stop = data.draw(st.integers(start, vector.size))
    bound = np.full(vector.size, np.inf)
    message_format = MessageFormat(run, -bound, bound, slice(start, stop))
    masked = vector.copy()
    masked[start:stop] = 0
    for with_private, expected in ((True, vector), (False, masked)):
        frame = message_format.encode(sender, incarnation, sequence, vector, with_private=with_private)
        assert len(frame) == frame_bytes(vector.size - (0 if with_private else stop - start))
        message = message_format.decode(frame)
        message_format.check(message)
        assert (message.sender, message.mark) == (sender, (incarnation, sequence))
        np.testing.assert_array_equal(message.vector(), expected)


def test_the_private_columns_are_not_in_the_bytes():
    secret = np.array([0.0, 123.456, -654.321, 0.0, 0.0])
    frame = FORMAT.encode(7, 2, 30, secret)
    assert not any(number.tobytes() in frame for number in secret[1:3])
    assert len(frame) == frame_bytes(3)


def test_the_layout_is_as_documented():
    assert packed() == FRAME
    assert len(FRAME) == HEADER_BYTES + 8 * WIDTH
    assert encode("run", 7, 2, 30, [1.0])[HEADER_BYTES:] == bytes.fromhex("000000000000f03f")


def test_integers_of_numpy_are_sent_too():
    assert encode("run", np.int64(7), np.int32(2), np.uint8(30), VECTOR, with_private=True) == FRAME


def test_what_is_received_cannot_be_changed():
    for frame in (FRAME, PUBLIC_FRAME):
        with pytest.raises(ValueError, match="read-only"):
            FORMAT.decode(frame).vector()[0] = 1


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"magic": b"BARY"}, Reason.MALFORMED),
        ({"version": 1}, Reason.VERSION),
        ({"version": 4, "payload": b""}, Reason.VERSION),
        ({"flags": 2}, Reason.MALFORMED),
        ({"flags": 0}, Reason.WIDTH),
        ({"flags": 0, "length": 3, "payload": bytes(24), "digest": bytes(16)}, Reason.RUN),
        ({"digest": run_digest("another")}, Reason.RUN),
        ({"incarnation": 2**63}, Reason.MALFORMED),
        ({"sequence": 2**64 - 1}, Reason.MALFORMED),
        ({"length": 4}, Reason.MALFORMED),
        ({"length": 2**32 - 1}, Reason.MALFORMED),
        ({"length": 4, "payload": bytes(32)}, Reason.WIDTH),
        ({"length": 3, "payload": bytes(24)}, Reason.WIDTH),
        ({"length": 0, "payload": b""}, Reason.WIDTH),
        ({"payload": bytes(39)}, Reason.MALFORMED),
        ({"payload": bytes(41)}, Reason.TOO_LONG),
    ],
)
def test_other_fields_are_refused(changed, reason):
    assert refusal(packed(**changed)) is reason


def test_a_long_frame_is_refused_before_it_is_read():
    class Unreadable(bytes):
        def __getitem__(self, key):
            raise AssertionError("read")

    assert refusal(Unreadable(10**7)) is Reason.TOO_LONG


def test_the_error_names_reason_and_value():
    with pytest.raises(BadMessageError, match=r"another number of values than the run's \(3 values, expected 5\)"):
        FORMAT.decode(packed(length=3, payload=bytes(24)))


@pytest.mark.parametrize("frame", [b"", b"b", b"bary", b"bary\x02", FRAME[:6], FRAME[: HEADER_BYTES - 1], FRAME[:-1]])
def test_a_short_frame_is_refused(frame):
    assert refusal(frame) is Reason.MALFORMED


@given(st.binary(max_size=300), st.sampled_from([b"", b"bary\x02\x00", FRAME[:24], FRAME[:HEADER_BYTES]]))
def test_any_bytes_are_a_message_or_refused(noise, start):
    try:
        message = FORMAT.decode(start + noise)
        FORMAT.check(message)
    except BadMessageError:
        return
    assert message.vector().shape == (WIDTH,)
    assert np.isfinite(message.vector()).all()


@given(
    st.sampled_from([FRAME, PUBLIC_FRAME]),
    st.lists(st.tuples(st.integers(0, len(PUBLIC_FRAME) - 1), st.integers(0, 255)), max_size=4),
    st.data(),
)
def test_a_damaged_frame_is_refused_or_still_well_formed(original, changes, data):
    frame = bytearray(original)
    for place, value in changes:
        frame[place] = value
    frame = bytes(frame[: data.draw(st.integers(0, len(frame)) | st.just(len(frame)))])
    try:
        message = FORMAT.decode(frame)
    except BadMessageError:
        return
    with_private = message.values.size == WIDTH
    assert encode("run", message.sender, *message.mark, message.values, with_private=with_private) == frame


def test_the_format_needs_no_sockets():
    """The simulator counts the bytes of frames with it."""
    code = "import sys; import barymesh.transport.wire; sys.exit('zmq' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=40))
def test_frames_leave_a_packet_as_they_came(lengths):
    sent = [encode("run", k, 1, 2, np.full(length, float(k))) for k, length in enumerate(lengths)]
    joined = [b"".join(sent[part]) for part in wire.packets(sent)]
    assert [frame for packet in joined for frame in wire.frames(packet)] == sent
    assert all(len(packet) <= max(wire.PACKET_BYTES, *map(len, sent)) for packet in joined)


@given(st.binary(max_size=400), st.integers(0, 3))
def test_whatever_a_packet_is_its_parts_are_all_of_it(rest, count):
    packet = b"".join(encode("run", k, 1, 2, np.zeros(k)) for k in range(count)) + rest
    assert b"".join(wire.frames(packet)) == packet


def test_a_handshake_is_not_taken_for_a_message():
    # where a message has its length, a reply has its incarnation
    reply = Reply(VERSION, VERSIONS, bytes(16), 0, "run").encode()
    assert list(wire.frames(reply)) == [reply]
