"""The identity of a peer: a CURVE key pair. The neighbours know the public key; the secret key stays in one private
file."""

from __future__ import annotations

import base64
import hashlib
import os
import stat
import struct
import tempfile
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from barymesh.errors import BarymeshError, FileError
from barymesh.extras import needs

with needs("peers"):
    import tomli_w
    import zmq
    from zmq.utils import z85

_KEY_LENGTH = 40

# a key file is far shorter; the path may name any file, and no more than this is read of it
_FILE_LIMIT = 4096

# Curve25519: v^2 = u^3 + A u^2 + u modulo P
_P = 2**255 - 19
_A = 486662


class CurveKeyError(BarymeshError, ValueError):
    """A key is malformed, does not belong to the other key of its pair, or is not kept secret."""


@dataclass(frozen=True)
class KeyPair:
    """``public`` and ``secret`` are Z85 text of 40 characters. The secret shows in no repr."""

    public: str
    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        raw_public(self.public)
        _raw(self.secret, "secret")
        if zmq.curve_public(self.secret.encode()) != self.public.encode():
            raise CurveKeyError(
                f"The secret key does not belong to the public key {self.public} ({fingerprint(self.public)}). Use the "
                "two keys that were made together."
            )

    @classmethod
    def create(cls) -> KeyPair:
        """A new pair, from the random numbers of the operating system."""
        public, secret = zmq.curve_keypair()
        return cls(public.decode(), secret.decode())

    @property
    def raw_secret(self) -> bytes:
        """The 32 bytes of the secret key, for X25519."""
        return _raw(self.secret, "secret")

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the public key."""
        return fingerprint(self.public)

    def save(self, path: Path) -> None:
        """Write the pair to a new file that only its owner can read: all of it or nothing. An existing file is not
        replaced."""
        text = (
            "# A secret key of barymesh: with it, anyone can send messages as this peer. Never send this file. Send\n"
            f"# the public key. Fingerprint: {self.fingerprint}\n"
        ) + tomli_w.dumps({"public": self.public, "secret": self.secret})
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # mkstemp makes it private before anything is in it
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            try:
                with os.fdopen(handle, "w") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                _link(name, path)
            finally:
                os.unlink(name)
        except FileError:
            raise
        except OSError as error:
            raise FileError(
                f"Cannot write the secret key {path}: {error.strerror or error}. Choose another place."
            ) from error

    @classmethod
    def load(cls, path: Path) -> KeyPair:
        """The pair that ``save`` wrote. A file that other users could have read or written is refused."""
        try:
            # a named pipe would wait for a writer
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            try:
                # of the open file: the name may mean another a moment later
                _check_private(path, os.fstat(handle))
                content = os.read(handle, _FILE_LIMIT)
            finally:
                os.close(handle)
        except OSError as error:
            raise FileError(
                f"Cannot read the secret key {path}: {error.strerror or error}. Make one with `barymesh keygen`, or "
                "name the file that has it."
            ) from error
        try:
            stored = tomllib.loads(content.decode())
            public, secret = stored["public"], stored["secret"]
        except (ValueError, KeyError):
            # without the text of the error, which may quote the secret
            raise CurveKeyError(
                f"{path} is not a key file of barymesh: it must have the lines public = ... and secret = .... Restore "
                "it from a copy, or make a new key with `barymesh keygen`."
            ) from None
        try:
            return cls(public, secret)
        except CurveKeyError as error:
            raise CurveKeyError(f"{path}: {error}") from None


def _link(name: str, path: Path) -> None:
    """Give the file its name. Unlike a rename, this does not replace an existing key."""
    try:
        os.link(name, path)
    except FileExistsError as error:
        raise FileError(
            f"{path} exists already, and a lost key cannot be made again. Choose another name, or move the "
            "file away first."
        ) from error


def _check_private(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise CurveKeyError(f"The secret key {path} is not a regular file. Name the file that has it.")
    if status.st_uid != os.geteuid():
        raise CurveKeyError(
            f"The secret key {path} belongs to user {status.st_uid}, and this process runs as user {os.geteuid()}. "
            f"Run it as the owner, or `chown {os.geteuid()} {path}`."
        )
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise CurveKeyError(
            f"The secret key {path} is open to other users (mode {stat.S_IMODE(status.st_mode):04o}). If no other user "
            f"has read it, `chmod 600 {path}`; else make a new key."
        )


def fingerprint(public: str) -> str:
    """120 bits of the SHA-256 of the public key; see ``readable_digest``."""
    return readable_digest(hashlib.sha256(_raw(public, "public")).digest())


def readable_digest(digest: bytes) -> str:
    """The first 120 bits of a digest, as six groups of four letters and digits that people can compare."""
    text = base64.b32encode(digest[:15]).decode().lower()
    return "-".join(text[i : i + 4] for i in range(0, len(text), 4))


def raw_public(public: str) -> bytes:
    """The 32 bytes of the public key. CurveKeyError if it is malformed, or a point of small order."""
    raw = _raw(public, "public")
    if _small_order(int.from_bytes(raw, "little") % 2**255):
        raise CurveKeyError(
            f"The public key {public} protects nothing: anyone could use it. Make a key with `barymesh keygen`."
        )
    return raw


def _raw(key: object, kind: str) -> bytes:
    try:
        if isinstance(key, str) and len(key) == _KEY_LENGTH:
            return z85.decode(key)
    except (ValueError, KeyError, struct.error):
        pass
    # a secret must not be quoted
    shown = f" {key!r}" if kind == "public" else ""
    raise CurveKeyError(
        f"The {kind} key{shown} is malformed: it must be {_KEY_LENGTH} characters of Z85, as `barymesh keygen` makes."
    )


def _small_order(u: int) -> bool:
    """Whether eight times the point is the identity: with such a point every secret key shares the same number."""
    x, z = u, 1
    for _ in range(3):
        x, z = (x * x - z * z) ** 2 % _P, 4 * x * z * (x * x + _A * x * z + z * z) % _P
    return z == 0
