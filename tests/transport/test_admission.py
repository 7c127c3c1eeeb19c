"""Only messages in the right format are accepted; the rest is counted, logged at a limited rate, and ends in being cut
off."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from barymesh.errors import NumericalError, OptionError
from barymesh.transport.admission import Admission, Tolerance
from barymesh.transport.handshake import Reply
from barymesh.transport.rate_limit import RateLimit
from barymesh.transport.wire import VERSION, VERSIONS, BadMessageError, MessageFormat, Reason, encode

WIDTH = 4
FORMAT = MessageFormat("run", np.zeros(WIDTH), np.full(WIDTH, 10.0))
UNBOUNDED = MessageFormat("run", np.full(WIDTH, -np.inf), np.full(WIDTH, np.inf))
# the private columns may not be zero: zeros that stand for them are not checked
PRIVATE = MessageFormat("run", np.array([0.0, 5.0, 5.0, 0.0]), np.full(WIDTH, 10.0), slice(1, 3))
GOOD = np.arange(4.0)
TOLERANT = Tolerance(bad=10**6)


class Clock:
    """Seconds that pass when they are set."""

    now = 0.0

    def __call__(self):
        return self.now


def admission(message_format=FORMAT, **more):
    """Checks of the messages of a peer that has announced incarnation 0."""
    return announced(Admission("b", (3, 5), message_format, **{"tolerance": TOLERANT} | more), 0)


def announced(tested, incarnation):
    challenge = tested.begin()
    tested.accept(Reply(VERSION, VERSIONS, challenge, incarnation, "run").encode())
    return tested


def frame(vector=GOOD, run="run", sender=3, incarnation=0, sequence=0, with_private=False):
    return encode(run, sender, incarnation, sequence, vector, with_private=with_private)


def only_reason(tested, sent):
    assert tested.accept(sent) is None
    assert tested.refused.total() == 1
    return next(iter(tested.refused))


def test_a_good_message_is_accepted():
    tested = admission()
    message = tested.accept(frame(sequence=9))
    assert message.sender == 3
    np.testing.assert_array_equal(message.vector(), GOOD)
    assert (tested.accepted, tested.refused.total(), tested.marks) == (1, 0, {3: (0, 9)})


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (frame(run="other"), Reason.RUN),
        (frame(sender=4), Reason.SENDER),
        (frame(np.arange(3.0)), Reason.WIDTH),
        (frame(np.arange(5.0)), Reason.TOO_LONG),
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
    assert only_reason(admission(), sent) is reason


def test_another_version_is_refused():
    sent = frame()
    assert only_reason(admission(), sent[:4] + b"\x07\x00" + sent[6:]) is Reason.VERSION


def test_zeros_in_place_of_private_columns_are_not_checked():
    tested = admission(PRIVATE)
    np.testing.assert_array_equal(tested.accept(PRIVATE.encode(3, 0, 1, [1, 0, 0, 2])).vector(), [1, 0, 0, 2])
    np.testing.assert_array_equal(
        tested.accept(PRIVATE.encode(3, 0, 2, [1, 6, 7, 2], with_private=True)).vector(), [1, 6, 7, 2]
    )
    assert only_reason(tested, frame([1, 6, 4, 2], sequence=3, with_private=True)) is Reason.OUT_OF_RANGE


def test_without_bounds_everything_finite_is_accepted():
    assert admission(UNBOUNDED).accept(frame([1e300, -1e300, 0, 5e-324])) is not None
    assert only_reason(admission(UNBOUNDED), frame([np.inf, 0, 0, 0])) is Reason.NOT_FINITE
    assert only_reason(admission(UNBOUNDED), frame([np.nan, 0, 0, 0])) is Reason.NOT_FINITE


def test_an_old_message_is_refused_and_a_duplicate_is_no_fault():
    tested = admission()
    assert tested.accept(frame(sequence=5)) is not None
    assert tested.accept(frame(sequence=5)) is None
    assert (tested.duplicates, tested.refused.total()) == (1, 0)
    assert only_reason(tested, frame(sequence=4)) is Reason.STALE
    assert tested.accept(frame(sequence=7)) is not None


def test_a_repeat_with_other_values_changes_nothing():
    tested = admission()
    tested.accept(frame(sequence=5))
    assert tested.accept(frame([0, np.nan, 99, 0], sequence=5)) is None
    assert tested.accepted == 1


@pytest.mark.parametrize("other", [1, 3, 2**62])
def test_another_incarnation_counts_from_the_moment_it_is_announced(other):
    """It need not be larger: the answer to the challenge shows that it is there now."""
    tested = announced(admission(), 2)
    assert tested.accept(frame(incarnation=2, sequence=100)) is not None
    assert tested.accept(frame(incarnation=other, sequence=101)) is None
    announced(tested, other)
    assert tested.accept(frame(incarnation=2, sequence=102)) is None
    assert tested.refused == {Reason.STALE: 2}
    assert tested.accept(frame(incarnation=other, sequence=0)) is not None


def test_an_answer_to_another_request_announces_nothing():
    tested = admission()
    old = tested.begin()
    tested.begin()
    assert only_reason(tested, Reply(VERSION, VERSIONS, old, 0, "run").encode()) is Reason.STALE
    assert tested.accept(frame()) is None
    assert tested.accepted == 0


def test_pauses_grow_while_a_peer_begins_again_soon():
    clock = Clock()
    tested = admission(tolerance=Tolerance(bad=2, pause=10, longest_pause=35), clock=clock)
    pauses = []
    for quiet in (0, 30, 60, 90, 351):
        clock.now += quiet
        for _ in range(2):
            tested.accept(b"bad")
        pauses.append(tested.pause)
        clock.now += tested.pause
        tested.readmit()
        assert announced(tested, 0).accept(frame(sequence=len(pauses))) is not None
    assert pauses == [10, 20, 35, 35, 10]
    assert tested.cut_offs == 5


def test_every_node_has_its_own_order():
    tested = admission()
    assert tested.accept(frame(sender=3, sequence=100)) is not None
    assert tested.accept(frame(sender=5, sequence=1)) is not None


def test_a_refused_message_does_not_advance_the_order():
    tested = admission()
    assert tested.accept(frame([np.nan] * 4, sequence=10**9)) is None
    assert tested.accept(frame(sequence=1)) is not None


def test_it_continues_from_given_marks():
    tested = announced(admission(marks={3: (1, 50), 99: (7, 7)}), 1)
    assert tested.marks == {3: (1, 50)}
    assert only_reason(tested, frame(incarnation=1, sequence=49)) is Reason.STALE


def test_a_peer_that_sends_too_many_is_cut_off(caplog):
    clock = Clock()
    tested = admission(tolerance=Tolerance(bad=3, window=10), clock=clock)
    for _ in range(3):
        assert not tested.cut_off
        tested.accept(b"bad")
        clock.now += 4
    assert tested.cut_off
    assert tested.accept(frame()) is None
    assert tested.refused == {Reason.MALFORMED: 3}
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]
    assert caplog.records[-1].refused_messages == {"MALFORMED": 3}


def test_bad_messages_far_apart_are_forgiven():
    clock = Clock()
    tested = admission(tolerance=Tolerance(bad=3, window=10), clock=clock)
    for _ in range(30):
        tested.accept(b"bad")
        clock.now += 6
    assert not tested.cut_off
    assert tested.accept(frame()) is not None


def test_the_log_is_not_flooded(caplog):
    clock = Clock()
    tested = admission(clock=clock)
    for _ in range(1000):
        tested.accept(b"bad")
    assert len(caplog.records) == 1
    clock.now += 60
    tested.accept(b"bad")
    record = caplog.records[-1]
    assert (record.levelno, record.peer, record.reason, record.suppressed) == (logging.WARNING, "b", "MALFORMED", 999)


def test_the_rate_limit_counts_each_kind_for_itself():
    clock = Clock()
    limit = RateLimit(interval=1, clock=clock)
    assert [limit.suppressed(kind) for kind in "aabba"] == [0, None, 0, None, None]
    clock.now = 1.0
    assert [limit.suppressed(kind) for kind in "aba"] == [2, 1, None]


@given(npst.arrays(np.float64, WIDTH, elements=st.floats(5, 10)), st.booleans())
def test_what_a_format_encodes_is_accepted(vector, with_private):
    for message_format in (FORMAT, PRIVATE):
        sent = message_format.encode(3, 0, 0, vector, with_private=with_private)
        assert admission(message_format).accept(sent) is not None


@pytest.mark.parametrize("bad", [np.nan, np.inf, 11.0, -1.0])
def test_what_nobody_would_accept_is_not_sent(bad):
    with pytest.raises(NumericalError, match=r"Node 3 .*\(value 2 .*Nothing was sent"):
        FORMAT.encode(3, 0, 0, [0, 0, bad, 0])


def test_a_vector_of_another_width_is_not_sent():
    with pytest.raises(OptionError, match=r"\(5,\).*\(4,\)"):
        FORMAT.encode(3, 0, 0, np.zeros(5))


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
        {"private": slice(2, 5)},
        {"private": slice(3, 2)},
        {"private": slice(0, 4, 2)},
        {"private": slice(-2, -1)},
        {"private": slice(None, 2)},
    ],
)
def test_a_format_that_means_nothing_is_refused(bad):
    with pytest.raises(OptionError):
        MessageFormat(**{"run": "run", "lower": np.zeros(4), "upper": np.full(4, 10.0)} | bad)


@pytest.mark.parametrize("bad", [{"bad": 0}, {"window": 0.0}, {"window": float("nan")}])
def test_a_tolerance_that_means_nothing_is_refused(bad):
    with pytest.raises(OptionError):
        Tolerance(**bad)


@given(st.lists(st.binary(max_size=200), max_size=20))
def test_random_bytes_are_never_accepted(frames):
    tested = admission()
    assert [tested.accept(sent) for sent in frames] == [None] * len(frames)
    assert tested.refused.total() == len(frames)
    assert tested.reply.incarnation == 0


NEXT = frame(sequence=2)


@given(st.lists(st.tuples(st.integers(0, len(NEXT) - 1), st.integers(0, 255)), max_size=5), st.integers(0, len(NEXT)))
def test_a_damaged_frame_is_accepted_only_if_the_peer_might_have_sent_it(changes, cut):
    tested = admission()
    tested.accept(frame(sequence=1))
    sent = bytearray(NEXT)
    for place, value in changes:
        sent[place] = value
    message = tested.accept(bytes(sent[:cut] if changes else sent))
    if message is None:
        assert tested.refused.total() + tested.duplicates == 1
        return
    assert message.sender in (3, 5)
    assert message.sender == 5 or message.mark > (0, 1)
    assert message.incarnation == 0
    assert ((message.vector() >= 0) & (message.vector() <= 10)).all()


def test_a_fault_can_be_reported_from_outside():
    tested = admission(tolerance=Tolerance(bad=2))
    for _ in range(2):
        tested.report(BadMessageError(Reason.BROKEN))
    assert tested.cut_off
