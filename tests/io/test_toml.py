"""TOML files: read, or refused by name."""

from __future__ import annotations

import os

import pytest

from barymesh.errors import ConfigError, FileError
from barymesh.io.toml import MOST_BYTES, read_toml


def test_what_a_file_says(tmp_path):
    (tmp_path / "a.toml").write_bytes(b'\xef\xbb\xbfname = "caf\xc3\xa9"\n[table]\nnumber = 3\n')
    assert read_toml(tmp_path / "a.toml") == {"name": "café", "table": {"number": 3}}


@pytest.mark.parametrize(
    ("content", "error", "said"),
    [
        (b"a = ", ConfigError, "not valid TOML"),
        (b"a = " + b"9" * 6000, ConfigError, "digits"),
        (b"a = " + b"9" * 4000, ConfigError, "a is a whole number"),
        (b"[b]\nc = [1, 0x" + b"f" * 6000 + b"]", ConfigError, r"b\.c\[1\] is a whole number"),
        (b"a = " + b"[" * 50_000, ConfigError, "nested"),
        (b"a = '\xff'", FileError, "UTF-8"),
        (b"#" * (MOST_BYTES + 1), FileError, "16 MiB"),
    ],
)
def test_what_cannot_be_read(tmp_path, content, error, said):
    (tmp_path / "a.toml").write_bytes(content)
    with pytest.raises(error, match=said) as caught:
        read_toml(tmp_path / "a.toml")
    assert str(tmp_path / "a.toml") in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileError, match=r"no file .*a\.toml"):
        read_toml(tmp_path / "a.toml")


def test_a_folder(tmp_path):
    with pytest.raises(FileError, match="a folder"):
        read_toml(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_never_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.toml")
    with pytest.raises(FileError, match="a pipe"):
        read_toml(tmp_path / "a.toml")
