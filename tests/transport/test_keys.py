"""Keys are made, kept private, and refused with a remedy if anything about them is wrong."""

from __future__ import annotations

import os
import stat

import pytest
import zmq
from zmq.utils import z85

from barymesh.errors import FileError
from barymesh.transport.keys import CurveKeyError, KeyPair, fingerprint, raw_public

P = 2**255 - 19


@pytest.fixture
def pair():
    return KeyPair.create()


@pytest.fixture
def path(tmp_path, pair):
    pair.save(tmp_path / "secret.toml")
    return tmp_path / "secret.toml"


def test_a_new_pair_fits_and_is_new(pair):
    assert zmq.curve_public(pair.secret.encode()) == pair.public.encode()
    assert KeyPair.create() != pair


def test_the_secret_is_not_shown(pair):
    assert pair.secret not in repr(pair)
    assert pair.secret not in str(pair)


def test_what_is_saved_is_loaded(path, pair):
    assert KeyPair.load(path) == pair


def test_the_file_is_private_whatever_the_umask(tmp_path, pair):
    before = os.umask(0)
    try:
        pair.save(tmp_path / "new" / "secret.toml")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new" / "secret.toml").stat().st_mode) == 0o600
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["secret.toml"]


def test_a_key_is_never_replaced(path, pair):
    with pytest.raises(FileError, match=r"secret.toml exists already.*another name"):
        KeyPair.create().save(path)
    assert KeyPair.load(path) == pair
    assert len(list(path.parent.iterdir())) == 1


def test_a_failed_write_leaves_nothing(tmp_path, pair, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match="No space left"):
        pair.save(tmp_path / "secret.toml")
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_named(tmp_path, pair):
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match=r"file/secret.toml.*Choose another place"):
        pair.save(tmp_path / "file" / "secret.toml")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620, 0o601, 0o644])
def test_a_file_open_to_others_is_refused(path, mode):
    path.chmod(mode)
    with pytest.raises(CurveKeyError, match=f"{mode:04o}.*chmod 600"):
        KeyPair.load(path)


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_private_file_is_taken(path, mode, pair):
    path.chmod(mode)
    assert KeyPair.load(path) == pair


def test_a_file_of_another_user_is_refused(path, monkeypatch):
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    with pytest.raises(CurveKeyError, match=f"runs as user {other}.*chown"):
        KeyPair.load(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileError, match=r"none.toml: No such file.*barymesh keygen"):
        KeyPair.load(tmp_path / "none.toml")


def test_what_is_not_a_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(CurveKeyError, match="not a regular file"):
        KeyPair.load(tmp_path / "pipe")
    tmp_path.chmod(0o700)
    with pytest.raises(CurveKeyError, match="not a regular file"):
        KeyPair.load(tmp_path)


def test_a_secret_of_another_pair_is_refused(path, pair):
    path.write_text(f'public = "{KeyPair.create().public}"\nsecret = "{pair.secret}"\n')
    with pytest.raises(CurveKeyError, match=r"secret.toml: The secret key does not belong") as caught:
        KeyPair.load(path)
    assert pair.secret not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "public = 1",
        "secret = '{secret}'",
        "public = '{public}'\nsecret = 5",
        "public = '{public}'\nsecret = '{secret}x'",
        "public = '{public}'\nsecret = '\"{short}'",
        "public = '{public}'\nsecret = '{secret}",
        "public = '{public}'\nsecret = 'äääääääääääääääääääääääääääääääääääääääää'",
        "public = '##########{half}'\nsecret = '{secret}'",
        "{secret}",
    ],
)
def test_a_malformed_file_is_refused_without_quoting_the_secret(path, pair, text):
    path.write_text(text.format(public=pair.public, secret=pair.secret, short=pair.secret[1:], half=pair.public[10:]))
    with pytest.raises(CurveKeyError, match=r"secret.toml.*barymesh keygen") as caught:
        KeyPair.load(path)
    shown = f"{caught.value} {caught.value.__cause__}"
    assert pair.secret[1:] not in shown


def test_a_file_that_is_not_text_is_refused(path):
    path.write_bytes(os.urandom(10**5))
    with pytest.raises(CurveKeyError, match="not a key file"):
        KeyPair.load(path)


def test_the_fingerprint_is_short_and_tells_keys_apart(pair):
    shown = fingerprint(pair.public)
    assert shown == pair.fingerprint
    assert [len(group) for group in shown.split("-")] == [4] * 6
    assert shown != KeyPair.create().fingerprint
    assert fingerprint("rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7") == "kisq-d5hh-uy7w-dxlx-nv7n-naur"


@pytest.mark.parametrize("public", ["", "x" * 39, "x" * 41, "~" * 40, "ä" * 40, "#" * 40, None, b"x" * 40, 3])
def test_a_malformed_public_key_is_refused(public):
    with pytest.raises(CurveKeyError, match=r"public key .*40 characters"):
        raw_public(public)


@pytest.mark.parametrize(
    "point",
    [
        0,
        1,
        325606250916557431795983626356110631294008115727848805560023387167927233504,
        39382357235489614581723060781553021112529911719440698176882885853963445705823,
        P - 1,
        P,
        P + 1,
        2**255,
    ],
)
def test_a_public_key_that_protects_nothing_is_refused(point):
    with pytest.raises(CurveKeyError, match="protects nothing"):
        raw_public(z85.encode(point.to_bytes(32, "little")).decode())
