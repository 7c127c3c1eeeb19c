"""Who a site is, who the others are, and what they have agreed on, none of which a server can replace: its own key, the
public keys of all sites, and the barycenter that is to be found."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from barymesh import readers as read
from barymesh.decentralized.masks.streams import MIN_MEMBERS, Masks
from barymesh.errors import ConfigError, OptionError
from barymesh.extras import needs
from barymesh.io.toml import read_toml

with needs("peers"):
    from barymesh.transport.keys import CurveKeyError, KeyPair, raw_public, readable_digest

from barymesh.integrations.star import EQUAL, StarOptions

# the files in the folder of a site: its own key, as `barymesh keygen` makes it, and the keys of all
SECRET, SITES = "secret.key", "sites.toml"


@dataclass(frozen=True)
class SiteAgreement:
    """The ``support``, ``reg`` and ``weights`` that the sites have agreed on, and how many ``records`` all have
    together, where they count by these; a support of None stands for any, where all sites have one owner. A server that
    chose them could find out where the records of a single site end, since the site refuses a support that is too far
    from them, or which part of a sum is that of a small site."""

    support: str | None = None
    reg: float = 1.0
    weights: str = EQUAL
    records: float = np.nan

    def check(self, options: StarOptions) -> None:
        """OptionError if the options are others."""
        if self.support is None:
            return
        for name in ("support", "reg", "weights"):
            given, agreed = getattr(options, name), getattr(self, name)
            if given != agreed:
                raise OptionError(
                    f"The server asks for {name} = {given!r}, and in {SITES} is {name} = {agreed!r}. With masks a site "
                    "takes part in nothing but what the sites have agreed on: change the configuration of the server, "
                    f"or {SITES}, the same at all sites."
                )

    @property
    def digest(self) -> bytes:
        return hashlib.blake2b(repr(self).encode(), digest_size=32).digest()


@dataclass(frozen=True)
class Identity:
    """The ``number`` of a site among ``public``, the keys of all sites (32 bytes each), and its own ``secret`` key.
    ``min_members``: it contributes to sums over so many sites at least, and to no others than those of the
    ``agreement``."""

    number: int
    public: tuple[bytes, ...]
    secret: bytes = field(repr=False)
    agreement: SiteAgreement
    min_members: int = MIN_MEMBERS

    @classmethod
    def read(cls, folder: str | Path) -> Identity:
        """That in a folder with ``secret.key``, and ``sites.toml``, the same at all sites: ``support``, ``reg``, a
        table ``[sites]`` of names and public keys, and perhaps ``weights``, ``records`` and ``min_members``."""
        path, keys = Path(folder) / SITES, KeyPair.load(Path(folder) / SECRET)
        values = read_toml(path)
        unknown = sorted(values.keys() - {"support", "reg", "weights", "records", "min_members", "sites"})
        sites, least, support = values.get("sites"), values.get("min_members", MIN_MEMBERS), values.get("support")
        known = isinstance(sites, dict) and isinstance(least, int) and least >= MIN_MEMBERS and isinstance(support, str)
        if unknown or not known:
            wrong = (
                f"{unknown[0]!r} is none of these" if unknown else f"it has {', '.join(map(repr, values)) or 'nothing'}"
            )
            raise ConfigError(
                f"{path} must have support and reg, a table [sites] with a public key for each name, and may have "
                f"weights, records, and min_members, at least {MIN_MEMBERS}; {wrong}."
            )
        assert isinstance(sites, dict)
        reg = read.regularisation(f"reg in {path}", values.get("reg"))
        weights = read.one_of(EQUAL, read.SIZE)(f"weights in {path}", values.get("weights", EQUAL))
        records = np.nan
        if weights == read.SIZE:
            if "records" not in values:
                raise ConfigError(
                    f"{path} has weights = {weights!r}, and must have records, how many records all sites have "
                    "together: a server could learn something of a single site if it said another number."
                )
            records = float(read.count(f"records in {path}", values["records"]))
        agreement = SiteAgreement(support, reg, weights, records)
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
        return cls(listed.index(keys.public), public, keys.raw_secret, agreement, least)

    @classmethod
    def of_one_owner(cls, number: int, sites: int) -> Identity:
        """For a simulation, in which all sites have one owner: with keys that are no secret."""
        from barymesh.decentralized.masks.streams import public_key

        secrets = [hashlib.blake2b(f"site {k}".encode(), digest_size=32).digest() for k in range(sites)]
        return cls(number, tuple(map(public_key, secrets)), secrets[number], SiteAgreement())

    @property
    def fingerprint(self) -> str:
        """Of the keys of all sites, and of what they have agreed on: people at the sites compare it, for instance by
        telephone."""
        agreed = self.min_members.to_bytes(8, "little") + self.agreement.digest
        return readable_digest(hashlib.blake2b(agreed + b"".join(self.public), digest_size=15).digest())

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
