"""The folders that give sites their identities."""

from __future__ import annotations

from barymesh.integrations.identity import SECRET, SITES
from barymesh.transport.keys import KeyPair


def folders(path, names="abc", *, support, reg, weights="equal", records=0):
    """The folder of each site, with its key, and the file with the keys of all and what they have agreed on."""
    keys = {name: KeyPair.create() for name in names}
    text = f"support = '{support}'\nreg = {reg}\nweights = '{weights}'\nrecords = {records}\n\n[sites]\n" + "".join(
        f"{name} = '{pair.public}'\n" for name, pair in keys.items()
    )
    for name, pair in keys.items():
        pair.save(path / name / SECRET)
        (path / name / SITES).write_text(text)
    return [path / name for name in names]
