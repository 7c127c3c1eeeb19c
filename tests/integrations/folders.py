"""The folders that give sites their identities."""

from __future__ import annotations

from barymesh.integrations.identity import SECRET, SITES
from barymesh.transport.keys import KeyPair


def folders(path, names="abc"):
    """The folder of each site, with its key, and the file with the keys of all."""
    keys = {name: KeyPair.create() for name in names}
    text = "[sites]\n" + "".join(f"{name} = '{pair.public}'\n" for name, pair in keys.items())
    for name, pair in keys.items():
        pair.save(path / name / SECRET)
        (path / name / SITES).write_text(text)
    return [path / name for name in names]
