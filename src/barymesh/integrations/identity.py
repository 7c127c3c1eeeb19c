"""Who a site is, and who the others are: its own key, and the public keys of all sites, which no server can replace."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from barymesh.decentralized.masks.streams import MIN_MEMBERS, Masks
from barymesh.errors import ConfigError, OptionError
from barymesh.extras import needs
from barymesh.io.toml import read_toml

with needs("peers"):
    from barymesh.transport.keys import CurveKeyError, KeyPair, raw_public, readable_digest

# the files in the folder of a site: its own key, as `barymesh keygen` makes it, and the keys of all
SECRET, SITES = "secret.key", "sites.toml"


@dataclass(frozen=True)
class Identity:
    """The ``number`` of a site among ``public``, the keys of all sites (32 bytes each), and its own ``secret`` key.
    ``min_members``: it contributes to sums over so many sites at least."""

    number: int
    public: tuple[bytes, ...]
    secret: bytes = field(repr=False)
    min_members: int = MIN_MEMBERS

    @classmethod
    def read(cls, folder: str | Path) -> Identity:
        """That in a folder with ``secret.key``, and ``sites.toml``: a table ``[sites]`` of names and public keys, the
        same at all sites, and perhaps ``min_members``."""
        path, keys = Path(folder) / SITES, KeyPair.load(Path(folder) / SECRET)
        values = read_toml(path)
        unknown = [key for key in values if key not in ("sites", "min_members")]
        sites, least = values.get("sites"), values.get("min_members", MIN_MEMBERS)
        if unknown or not isinstance(sites, dict) or not isinstance(least, int) or least < MIN_MEMBERS:
            raise ConfigError(
                f"{path} must have a table [sites] with a public key for each name, and may have min_members, at least "
                f"{MIN_MEMBERS}; it has {', '.join(map(repr, values)) or 'nothing'}."
            )
        # in the order of the names, which is that of the numbers
        listed = [sites[name] for name in sorted(sites)]
        public = tuple(raw_public(key) for key in listed)
        if len(set(public)) < len(public):
            raise ConfigError(f"{path} has the same public key twice. Every site needs its own.")
        if keys.public not in listed:
            raise CurveKeyError(
                f"{path} does not have the public key {keys.public} of this site. Send it to the person who writes the "
                "file."
            )
        return cls(listed.index(keys.public), public, keys.raw_secret, least)

    @classmethod
    def of_one_owner(cls, number: int, sites: int) -> Identity:
        """For a simulation, in which all sites have one owner: with keys that are no secret."""
        from barymesh.decentralized.masks.streams import public_key

        secrets = [hashlib.blake2b(f"site {k}".encode(), digest_size=32).digest() for k in range(sites)]
        return cls(number, tuple(map(public_key, secrets)), secrets[number])

    @property
    def fingerprint(self) -> str:
        """Of the keys of all sites: people at the sites compare it, for instance by telephone."""
        least = self.min_members.to_bytes(8, "little")
        return readable_digest(hashlib.blake2b(least + b"".join(self.public), digest_size=15).digest())

    def masks(self, secret: bytes, method: str) -> Masks:
        """Its masks; ``secret``: what its number in a run comes from, never the same twice."""
        return Masks(
            {self.number: self.secret}, self.public, run=self.fingerprint.encode(), method=method, secret=secret,
            min_members=self.min_members,
        )  # fmt: skip


def as_identity(given: Any) -> Identity | None:
    """An identity, or the folder that has it; None stays None."""
    if given is None or isinstance(given, Identity):
        return given
    if isinstance(given, str | Path):
        return Identity.read(given)
    raise OptionError(f"The identity of a site is {given!r}; give the folder that has {SECRET} and {SITES}.")
