"""Ctrl-C asks first and stops at the second time; handlers of others are always put back."""

from __future__ import annotations

import signal
import threading

import pytest

from barymesh.interrupt import interruptible


@pytest.fixture(autouse=True)
def ctrl_c():
    """The handler Python installs, whatever ran before; put back afterwards."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_nothing_is_asked_without_ctrl_c():
    with interruptible() as asked:
        assert asked() is False


def test_the_first_ctrl_c_asks_and_the_work_goes_on():
    with interruptible() as asked:
        signal.raise_signal(signal.SIGINT)
        assert asked() is True
        assert asked() is True


def test_the_second_ctrl_c_stops_at_once():
    with interruptible() as asked:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert asked() is True


def test_the_handler_is_put_back():
    seen = []

    def own(number, frame):
        seen.append(number)

    signal.signal(signal.SIGINT, own)
    with interruptible():
        assert signal.getsignal(signal.SIGINT) is not own
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is own
    assert seen == []
    signal.raise_signal(signal.SIGINT)
    assert seen == [signal.SIGINT]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_the_handler_is_put_back_after_an_error(error):
    with pytest.raises(error), interruptible():
        raise error
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_one_block_forgets_what_another_was_asked():
    with interruptible() as first:
        signal.raise_signal(signal.SIGINT)
    with interruptible() as second:
        assert first() is True
        assert second() is False


def test_blocks_can_be_nested():
    """The inner one hears Ctrl-C; afterwards the outer one does."""
    with interruptible() as outer:
        with interruptible() as inner:
            signal.raise_signal(signal.SIGINT)
            assert inner() is True
            assert outer() is False
        signal.raise_signal(signal.SIGINT)
        assert outer() is True


def test_outside_the_main_thread_nothing_changes():
    seen = []

    def work():
        with interruptible() as asked:
            seen.extend([asked(), signal.getsignal(signal.SIGINT)])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False, signal.default_int_handler]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_not_set_from_python_is_left_alone(monkeypatch):
    """Such a handler cannot be put back, so it is not taken away."""
    calls = []
    monkeypatch.setattr(signal, "getsignal", lambda number: None)
    monkeypatch.setattr(signal, "signal", lambda number, handler: calls.append(handler))
    with interruptible() as asked:
        assert asked() is False
    monkeypatch.undo()
    assert calls == []
