"""Only messages by the rules pass; everything else is counted, logged now and then, and ends in being cut off."""

from __future__ import annotations

import logging

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from barymesh.errors import NumericalError, OptionError
from barymesh.transport.admission import Gate, Rules, Tolerance
from barymesh.transport.rate_limit import Seldom
from barymesh.transport.wire import BadMessageError, Reason, decode, encode

WIDTH = 4
RULES = Rules("run", np.zeros(WIDTH), np.full(WIDTH, 10.0))
FREE = Rules("run", np.full(WIDTH, -np.inf), np.full(WIDTH, np.inf))
GOOD = np.arange(4.0)
PATIENT = Tolerance(bad=10**6)


class Clock:
    """Seconds that pass when told to."""

    now = 0.0

    def __call__(self):
        return self.now


def gate(rules=RULES, **more):
    return Gate("b", (3, 5), rules, **{"tolerance": PATIENT} | more)


def frame(vector=GOOD, run="run", sender=3, incarnation=0, sequence=0, dtype="f8"):
    return encode(run, sender, incarnation, sequence, vector, dtype)


def only_reason(tested, sent):
    assert tested.admit(sent) is None
    assert tested.refused.total() == 1
    return next(iter(tested.refused))


def test_a_good_message_passes():
    tested = gate()
    message = tested.admit(frame(sequence=9))
    assert message.sender == 3
    np.testing.assert_array_equal(message.vector(), GOOD)
    assert (tested.admitted, tested.refused.total(), tested.marks) == (1, 0, {3: (0, 9)})


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (frame(run="other"), Reason.RUN),
        (frame(sender=4), Reason.SENDER),
        (frame(np.arange(3.0)), Reason.WIDTH),
        (frame(np.arange(5.0)), Reason.WIDTH),
        (frame(dtype="f4"), Reason.DTYPE),
        (frame([0, np.nan, 0, 0]), Reason.NOT_FINITE),
        (frame([0, 0, 0, np.inf]), Reason.NOT_FINITE),
        (frame([0, 0, 0, -np.inf]), Reason.NOT_FINITE),
        (frame([0, -1e-9, 0, 0]), Reason.OUT_OF_RANGE),
        (frame([0, 0, 0, 10.1]), Reason.OUT_OF_RANGE),
        (frame(np.zeros(10**6)), Reason.TOO_LONG),
        (b"hello", Reason.MALFORMED),
    ],
)
def test_a_bad_message_is_refused_and_counted(sent, reason):
    assert only_reason(gate(), sent) is reason


def test_another_version_is_refused():
    fields = msgspec.msgpack.decode(frame())
    assert only_reason(gate(), msgspec.msgpack.encode([2, *fields[1:], "more"])) is Reason.VERSION


def test_without_bounds_everything_finite_passes():
    assert gate(FREE).admit(frame([1e300, -1e300, 0, 5e-324])) is not None
    assert only_reason(gate(FREE), frame([np.inf, 0, 0, 0])) is Reason.NOT_FINITE
    assert only_reason(gate(FREE), frame([np.nan, 0, 0, 0])) is Reason.NOT_FINITE


def test_an_old_message_is_refused_and_the_newest_once_more_is_no_offence():
    tested = gate()
    assert tested.admit(frame(sequence=5)) is not None
    assert tested.admit(frame(sequence=5)) is None
    assert (tested.repeated, tested.refused.total()) == (1, 0)
    assert only_reason(tested, frame(sequence=4)) is Reason.STALE
    assert tested.admit(frame(sequence=7)) is not None


def test_a_repeat_with_other_values_changes_nothing():
    tested = gate()
    tested.admit(frame(sequence=5))
    assert tested.admit(frame([0, np.nan, 99, 0], sequence=5)) is None
    assert tested.admitted == 1


def test_a_higher_incarnation_restarts_the_sequence():
    tested = gate()
    assert tested.admit(frame(incarnation=0, sequence=100)) is not None
    assert tested.admit(frame(incarnation=1, sequence=0)) is not None
    assert only_reason(tested, frame(incarnation=0, sequence=101)) is Reason.STALE


def test_every_node_has_its_own_order():
    tested = gate()
    assert tested.admit(frame(sender=3, sequence=100)) is not None
    assert tested.admit(frame(sender=5, sequence=1)) is not None


def test_a_refused_message_does_not_advance_the_order():
    tested = gate()
    assert tested.admit(frame([np.nan] * 4, sequence=10**9)) is None
    assert tested.admit(frame(sequence=1)) is not None


def test_it_goes_on_from_marks_of_before():
    tested = gate(marks={3: (1, 50), 99: (7, 7)})
    assert tested.marks == {3: (1, 50)}
    assert only_reason(tested, frame(incarnation=1, sequence=49)) is Reason.STALE


def test_a_peer_that_goes_on_is_cut_off(caplog):
    clock = Clock()
    tested = gate(tolerance=Tolerance(bad=3, window=10), clock=clock)
    for _ in range(3):
        assert not tested.cut_off
        tested.admit(b"bad")
        clock.now += 4
    assert tested.cut_off
    assert tested.admit(frame()) is None
    assert tested.refused == {Reason.MALFORMED: 3}
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]
    assert caplog.records[-1].refused == {"MALFORMED": 3}


def test_bad_messages_far_apart_are_forgiven():
    clock = Clock()
    tested = gate(tolerance=Tolerance(bad=3, window=10), clock=clock)
    for _ in range(30):
        tested.admit(b"bad")
        clock.now += 6
    assert not tested.cut_off
    assert tested.admit(frame()) is not None


def test_the_log_is_not_flooded(caplog):
    clock = Clock()
    tested = gate(clock=clock)
    for _ in range(1000):
        tested.admit(b"bad")
    assert len(caplog.records) == 1
    clock.now += 60
    tested.admit(b"bad")
    record = caplog.records[-1]
    assert (record.levelno, record.peer, record.reason, record.unlogged) == (logging.WARNING, "b", "MALFORMED", 999)


def test_seldom_keeps_kinds_apart():
    clock = Clock()
    seldom = Seldom(interval=1, clock=clock)
    assert [seldom.held(kind) for kind in "aabba"] == [0, None, 0, None, None]
    clock.now = 1.0
    assert [seldom.held(kind) for kind in "aba"] == [2, 1, None]


def test_single_precision_at_the_bounds_passes():
    """0.1 grows when it is rounded; it was within its bound before."""
    rules = Rules("run", np.full(WIDTH, -0.1), np.full(WIDTH, 0.1), "f4")
    sent = rules.encode(3, 0, 0, [0.1, -0.1, 0.05, 0])
    assert float(decode(sent, WIDTH).values()[0]) > 0.1
    assert gate(rules).admit(sent) is not None
    assert only_reason(gate(rules), frame([0.1000001, 0, 0, 0], dtype="f4")) is Reason.OUT_OF_RANGE


@given(npst.arrays(np.float64, WIDTH, elements=st.floats(0, 10)), st.sampled_from(["f8", "f4"]))
def test_what_the_rules_encode_their_gate_admits(vector, dtype):
    rules = Rules("run", np.zeros(WIDTH), np.full(WIDTH, 10.0), dtype)
    assert gate(rules).admit(rules.encode(3, 0, 0, vector)) is not None


@pytest.mark.parametrize("bad", [np.nan, np.inf, 11.0, -1.0])
def test_what_nobody_would_admit_is_not_sent(bad):
    with pytest.raises(NumericalError, match=r"Node 3 .*\(value 2 .*Nothing was sent"):
        RULES.encode(3, 0, 0, [0, 0, bad, 0])


def test_what_overflows_single_precision_is_not_sent():
    rules = Rules("run", FREE.lower, FREE.upper, "f4")
    with pytest.raises(NumericalError, match="out of range"):
        rules.encode(3, 0, 0, [0, 0, 1e39, 0])
    assert gate(rules).admit(rules.encode(3, 0, 0, [0, 0, 3.4e38, 0])) is not None


def test_a_vector_of_another_width_is_not_sent():
    with pytest.raises(OptionError, match=r"\(5,\).*\(4,\)"):
        RULES.encode(3, 0, 0, np.zeros(5))


@pytest.mark.parametrize(
    "bad",
    [
        {"run": ""},
        {"run": "r" * 65},
        {"run": "zwölf"},
        {"run": "a\nb"},
        {"lower": np.zeros(3)},
        {"lower": np.zeros((1, 4))},
        {"lower": np.full(4, 11.0)},
        {"lower": np.full(4, np.nan)},
        {"lower": np.zeros(0), "upper": np.zeros(0)},
        {"dtype": "i8"},
    ],
)
def test_rules_that_mean_nothing_are_refused(bad):
    with pytest.raises(OptionError):
        Rules(**{"run": "run", "lower": np.zeros(4), "upper": np.full(4, 10.0)} | bad)


@pytest.mark.parametrize("bad", [{"bad": 0}, {"window": 0.0}, {"window": float("nan")}])
def test_a_tolerance_that_means_nothing_is_refused(bad):
    with pytest.raises(OptionError):
        Tolerance(**bad)


@given(st.lists(st.binary(max_size=200), max_size=20))
def test_random_bytes_never_pass(frames):
    tested = gate()
    assert [tested.admit(sent) for sent in frames] == [None] * len(frames)
    assert tested.refused.total() == len(frames)


NEXT = frame(sequence=2)


@given(st.lists(st.tuples(st.integers(0, len(NEXT) - 1), st.integers(0, 255)), max_size=5), st.integers(0, len(NEXT)))
def test_of_damaged_frames_only_such_pass_that_the_peer_might_have_sent(changes, cut):
    tested = gate()
    tested.admit(frame(sequence=1))
    sent = bytearray(NEXT)
    for place, value in changes:
        sent[place] = value
    message = tested.admit(bytes(sent[:cut] if changes else sent))
    if message is None:
        assert tested.refused.total() + tested.repeated == 1
        return
    assert message.run == "run"
    assert message.sender in (3, 5)
    assert message.sender == 5 or message.mark > (0, 1)
    assert ((message.vector() >= 0) & (message.vector() <= 10)).all()


def test_a_fault_can_be_blamed_from_outside():
    tested = gate(tolerance=Tolerance(bad=2))
    for _ in range(2):
        tested.blame(BadMessageError(Reason.BROKEN))
    assert tested.cut_off
