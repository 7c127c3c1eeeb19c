"""What was written is there, complete, whatever happens to the process that wrote it."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barymesh.errors import DamagedFileError, FileError
from barymesh.io.slot_file import HEAD, SlotFile, _slot

WRITER = """
import sys
from barymesh.io.slot_file import SlotFile
with SlotFile(sys.argv[1], 60_000) as file:
    print("ready", flush=True)
    number = int.from_bytes((file.read() or bytes(8))[:8], "little")
    while True:
        number += 1
        file.write(number.to_bytes(8, "little") + bytes([number % 251]) * 50_000)
        print(number, flush=True)
"""


def test_the_last_write_is_read_again(tmp_path):
    with SlotFile(tmp_path / "state", 100) as file:
        assert file.read() is None
        for data in (b"one", b"two", b"", b"three" * 20):
            file.write(data)
    with SlotFile(tmp_path / "state", 5) as file:
        assert file.read() == b"three" * 20


def test_a_process_killed_at_any_instant_loses_no_finished_write(tmp_path):
    """A process writes, and prints after each write. When it is killed, the last write that it printed is there, or the
    one after."""
    for attempt in range(6):
        command = [sys.executable, "-c", WRITER, str(tmp_path / "state")]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
            time.sleep(0.05 + 0.013 * attempt)
            writer.send_signal(signal.SIGKILL)
            printed = [int(line) for line in writer.stdout.read().split(b"\n")[:-1]]
        with SlotFile(tmp_path / "state", 60_000) as file:
            data = file.read()
        assert data is not None
        number = int.from_bytes(data[:8], "little")
        assert printed
        assert number in (printed[-1], printed[-1] + 1)
        assert data[8:] == bytes([number % 251]) * 50_000


@given(cut=st.integers(0, 200), junk=st.binary(min_size=1, max_size=40))
@settings(max_examples=60)
def test_a_torn_write_leaves_the_one_before(tmp_path_factory, cut, junk):
    path = tmp_path_factory.mktemp("slots") / "state"
    with SlotFile(path, 100) as file:
        for data in (b"a" * 80, b"b" * 90, b"c" * 100):
            file.write(data)
        start = file._offset(3)
    content = path.read_bytes()
    offset = start + min(cut, 100 + 31)
    path.write_bytes((content[:offset] + junk + content[offset + len(junk) :])[: len(content)])
    with SlotFile(path, 100) as file:
        # the damage may reach into the other slot, but then it leaves this one alone or is not there at all
        assert file.read() in (b"b" * 90, b"c" * 100)


def test_random_corruption_gives_an_intact_copy_or_a_clean_error(tmp_path):
    """A thousand files, damaged in one to three places each: bytes changed, zeroed, or cut off at the end. What is read
    is one of the last two writes, and never anything else."""
    chance = random.Random(1)
    path, copies = tmp_path / "state", [bytes([k]) * (60 + k) for k in range(5)]
    intact, found = [], Counter()
    with SlotFile(path, 100) as file:
        for data in copies:
            file.write(data)
            intact.append(path.read_bytes())
    for case in range(1000):
        content = bytearray(intact[case % 5])
        for _ in range(chance.randint(1, 3)):
            start, length = chance.randrange(len(content)), chance.choice((1, 2, 8, 16, 50, 150))
            junk = bytes(length) if chance.random() < 0.3 else chance.randbytes(length)
            # half of the damage is at a header
            start = chance.choice((start, *(place + chance.randrange(40) for place in (0, 40, 180))))
            content[start : start + length] = junk[: len(content) - start]
        if chance.random() < 0.1:
            del content[chance.randrange(1, len(content)) :]
        path.write_bytes(content)
        try:
            with SlotFile(path, 100) as file:
                kept = file.read()
        except FileError:
            found["error"] += 1
        else:
            last = copies[: case % 5 + 1][-2:]
            assert kept in last or (kept is None and case % 5 == 0)
            found["newest" if kept == last[-1] else "older"] += 1
    assert min(found.values()) > 100


def test_a_header_of_zeros_before_a_state_is_no_new_file(tmp_path):
    """Whatever else is damaged: it must not pass for a file that was never written."""
    path = tmp_path / "state"
    with SlotFile(path, 100) as file:
        for data in (b"a" * 80, b"b" * 90):
            file.write(data)
    content = path.read_bytes()
    for damaged in (content, content[:160] + bytes(len(content) - 160)):
        path.write_bytes(bytes(HEAD.size) + damaged[HEAD.size :])
        with pytest.raises(DamagedFileError, match="header is lost"):
            SlotFile(path, 100)


def test_a_file_whose_creation_was_cut_short_is_created_again(tmp_path):
    for content in (b"", bytes(10), bytes(300), bytes(HEAD.size) + _slot(0, b"") + bytes(220)):
        (tmp_path / "state").write_bytes(content)
        with SlotFile(tmp_path / "state", 100) as file:
            assert file.read() is None
            file.write(b"one")


def test_two_processes_cannot_be_one_node(tmp_path):
    with SlotFile(tmp_path / "state", 100), pytest.raises(FileError, match="in use"):
        SlotFile(tmp_path / "state", 100)


def test_others_cannot_read_it(tmp_path):
    with SlotFile(tmp_path / "state", 100):
        assert (tmp_path / "state").stat().st_mode & 0o077 == 0


def test_what_is_no_state_file_is_left_alone(tmp_path):
    (tmp_path / "letter").write_text("Dear reader, this is something else altogether.")
    with pytest.raises(FileError, match="not a state file"):
        SlotFile(tmp_path / "letter", 100)
    assert (tmp_path / "letter").read_text().startswith("Dear reader")


def test_two_damaged_copies_are_an_error(tmp_path):
    with SlotFile(tmp_path / "state", 100) as file:
        file.write(b"one")
        file.write(b"two")
        offsets = [file._offset(k) for k in (0, 1)]
    with open(tmp_path / "state", "r+b") as raw:
        for offset in offsets:
            raw.seek(offset + 20)
            raw.write(b"\xff" * 10)
    with pytest.raises(FileError, match="damaged"):
        SlotFile(tmp_path / "state", 100)


def test_more_than_the_capacity_is_refused(tmp_path):
    with SlotFile(tmp_path / "state", 10) as file:
        file.write(b"small")
        with pytest.raises(FileError, match="can hold 10"):
            file.write(b"far too large")
        assert file.read() == b"small"


def test_the_space_is_reserved_at_the_start(tmp_path):
    with SlotFile(tmp_path / "state", 100_000):
        assert (tmp_path / "state").stat().st_blocks * 512 >= 200_000
