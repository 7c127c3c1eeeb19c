"""A file is there whole or not at all, and a process that is killed leaves nothing behind for long."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

from barymesh.io.atomic import replacing, write_text

WRITER = """
import sys, time
from pathlib import Path
from barymesh.io.atomic import replacing
with replacing(Path(sys.argv[1])) as file:
    file.write(b"half of it")
    file.flush()
    print("writing", flush=True)
    time.sleep(60)
"""


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_a_killed_process_left_is_removed_by_the_next_and_what_a_live_one_writes_is_not(tmp_path):
    target = tmp_path / "result.npz"
    (tmp_path / ".result.npz.mine").write_text("not one of ours")
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(target)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        assert [writer.stdout.readline() for writer in writers] == ["writing\n"] * 2
        writers[0].send_signal(signal.SIGKILL)
        writers[0].wait()
        assert len(names(tmp_path)) == 3
        write_text(target, "all of it")
        assert len(names(tmp_path)) == 3
        assert target.read_text() == "all of it"
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()
    write_text(target, "all of it")
    assert names(tmp_path) == [".result.npz.mine", "result.npz"]


def test_writers_of_one_file_do_not_disturb_one_another(tmp_path):
    errors = []

    def write(text):
        try:
            for _ in range(100):
                with replacing(tmp_path / "x") as file:
                    file.write(text)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(bytes([k]) * 1000,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert names(tmp_path) == ["x"]
    assert len(set((tmp_path / "x").read_bytes())) == 1
