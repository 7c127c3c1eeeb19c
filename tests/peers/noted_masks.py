"""``barymesh node``, which notes every masked contribution in a file beside its kit before it is sent: whose, in which
round, and a digest of its words."""

from __future__ import annotations

import hashlib
import sys

from barymesh.cli.app import app
from barymesh.decentralized.masks.sums import MaskedSums

_original = MaskedSums.report


def _noted(self, masks, node, moment, *contribution):
    words = _original(self, masks, node, moment, *contribution)
    with open(f"{sys.argv[2]}.rounds", "a") as file:
        file.write(f"{node} {moment.digest.hex()} {hashlib.sha256(words.tobytes()).hexdigest()}\n")
    return words


MaskedSums.report = _noted

if __name__ == "__main__":
    app()
