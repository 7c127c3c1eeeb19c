"""The masks of a node: X25519, HKDF and ChaCha20, of the package ``cryptography``."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence

import numpy as np

from barymesh.decentralized.masks.fixed_point import Words
from barymesh.decentralized.masks.round import Round
from barymesh.errors import OptionError
from barymesh.extras import needs

with needs("peers"):
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

# a node contributes to sums over so many members at least
MIN_MEMBERS = 3
# the numbers of the roll are below this, so that a double holds them
LARGEST_NUMBER = 2**52


class Masks:
    """The masks of the nodes whose ``secrets`` this process has, by node, in a network whose nodes have the ``public``
    keys (32 bytes each). ``run``: what distinguishes this run from all others with these keys. ``secret``: what the
    fresh numbers of the roll come from, never the same in two processes with the same keys."""

    def __init__(
        self,
        secrets: Mapping[int, bytes],
        public: Sequence[bytes],
        *,
        run: bytes,
        method: str,
        secret: bytes,
        min_members: int = MIN_MEMBERS,
    ) -> None:
        if min_members < 2:
            raise OptionError(f"min_members is {min_members}; a sum over fewer than 2 members hides nothing.")
        if len(public) < min_members:
            raise OptionError(
                f"Sums over fewer than {min_members} members are not sent, and there are {len(public)} nodes. Do "
                "without masks, or let more nodes take part."
            )
        self.size, self.min_members = len(public), min_members
        self._secrets = {node: X25519PrivateKey.from_private_bytes(raw) for node, raw in secrets.items()}
        self._public = public
        self._run = hashlib.blake2b(run, digest_size=32).digest()
        self._context = hashlib.blake2b(method.encode(), key=hashlib.blake2b(run).digest(), digest_size=32).digest()
        self._secret = hashlib.blake2b(secret, digest_size=32).digest()
        self._shared: dict[tuple[int, int], bytes] = {}

    @classmethod
    def of_one_owner(
        cls, nodes: int, seed: object, method: str, *, secret: bytes | None = None, min_members: int = MIN_MEMBERS
    ) -> Masks:
        """Those of all nodes, with keys that follow from the ``seed`` and are no secret: for runs in which all nodes
        have one owner. Without ``secret`` the fresh numbers follow from the seed too."""

        def drawn(purpose: str, node: int = 0) -> bytes:
            return hashlib.blake2b(f"{purpose} {node} {seed}".encode(), digest_size=32).digest()

        secrets = {node: drawn("key", node) for node in range(nodes)}
        return cls(
            secrets, [public_key(raw) for raw in secrets.values()], run=drawn("run"), method=method,
            secret=secret or drawn("numbers"), min_members=min_members,
        )  # fmt: skip

    @property
    def process(self) -> float:
        """A number of its own for each process: one that begins anew draws new numbers for the roll, whatever it finds
        on its disk."""
        return float(int.from_bytes(hashlib.blake2b(b"process", key=self._secret, digest_size=6).digest(), "little"))

    def number(self, node: int, epoch: float, beat: int) -> float:
        """A fresh number of the node, for the roll of an epoch; ``beat``: when it was drawn."""
        place = struct.pack("<qdq", node, epoch, beat)
        found = int.from_bytes(hashlib.blake2b(place, key=self._secret, digest_size=8).digest(), "little")
        return float(1 + found % (LARGEST_NUMBER - 1))

    def mask(self, node: int, moment: Round, sizes: Sequence[int]) -> Words:
        """``(sum of sizes,)``: the sum of the masks of the node in a round, for fields of these sizes."""
        total = np.zeros(sum(sizes), dtype=np.uint64)
        for partner in moment.partners(node):
            stream = _stream(self._round_key(node, partner, moment.digest), sizes)
            if node < partner:
                total += stream
            else:
                total -= stream
        return total

    def rounding_words(self, node: int, moment: Round, count: int) -> Words:
        """``(count,)``: random words that only who has the node's key can compute, the same in the same round."""
        return self._own_words(node, self._context, b"barymesh rounding 1" + moment.digest, count)

    def noise_words(self, node: int, numbers: Words) -> Words:
        """``(k,)``: random words that only who has the node's key can compute, the same for the same ``numbers (k,)``
        in all runs that are not told apart from this one."""
        digest = hashlib.blake2b(numbers.astype("<u8").tobytes(), digest_size=32).digest()
        return self._own_words(node, self._run, b"barymesh noise 1" + digest, numbers.size)

    def _own_words(self, node: int, salt: bytes, info: bytes, count: int) -> Words:
        own = self._secrets[node].private_bytes_raw()
        return _stream(HKDF(SHA256(), length=32, salt=salt, info=info).derive(own), (count,))

    def _round_key(self, node: int, partner: int, digest: bytes) -> bytes:
        pair = struct.pack("<qq", *sorted((node, partner)))
        info = b"barymesh masks 1" + pair + digest
        return HKDF(SHA256(), length=32, salt=self._context, info=info).derive(self._pair_key(node, partner))

    def _pair_key(self, node: int, partner: int) -> bytes:
        pair = (min(node, partner), max(node, partner))
        if pair not in self._shared:
            self._shared[pair] = self._secrets[node].exchange(X25519PublicKey.from_public_bytes(self._public[partner]))
        return self._shared[pair]


def public_key(secret: bytes) -> bytes:
    """The 32 bytes of the public key that belongs to a secret one."""
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def _stream(key: bytes, sizes: Sequence[int]) -> Words:
    """Random words from a key that is used once, a stream for each field."""
    parts = []
    for field, size in enumerate(sizes):
        # 4 bytes count the blocks of a stream, 12 tell one stream from another
        nonce = struct.pack("<IIQ", 0, 0, field)
        parts.append(Cipher(algorithms.ChaCha20(key, nonce), mode=None).encryptor().update(bytes(8 * size)))
    return np.frombuffer(b"".join(parts), dtype="<u8").astype(np.uint64)
