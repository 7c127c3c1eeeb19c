"""The start-up kit of a node: all that it needs to take part in a network, in a folder."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from barymesh.errors import ConfigError, FileError
from barymesh.extras import needs
from barymesh.io.atomic import write_text
from barymesh.peers.network_file import NETWORK, NetworkFile, NodeEntry, read_file
from barymesh.transport import endpoints
from barymesh.transport.keys import CurveKeyError, KeyPair

with needs("peers"):
    import tomli_w

NODE, SECRET = "node.toml", "secret.key"
# the key that a network which is yet to be accepted has for the node
NEXT_SECRET = "next.key"


@dataclass(frozen=True)
class Kit:
    """What a node needs to start, in a folder: ``network.toml``, ``secret.key``, and ``node.toml`` with its name, the
    fingerprint of the network it has accepted, and the address to ``listen`` at if that is not its endpoint (behind a
    router, in a container)."""

    folder: Path
    name: str
    network: NetworkFile
    keys: KeyPair = field(repr=False)
    listen: str | None = None

    @property
    def number(self) -> int:
        """The number of the node."""
        return self.network.number(self.name)

    @property
    def entry(self) -> NodeEntry:
        """The node as the others see it."""
        return self.network.nodes[self.number]

    @property
    def weight(self) -> float:
        """That of the node's measure; an ordinary node has 1."""
        return float(self.network.node_weights()[self.number])

    @classmethod
    def open(cls, folder: Path) -> Kit:
        """The kit in the folder. Its parts must belong together, and no other user may be able to read its secret."""
        if not folder.is_dir():
            raise FileError(
                f"There is no kit {folder}. Name the folder that has {NODE}, {NETWORK} and {SECRET}: `barymesh network "
                "create` or `barymesh network accept` makes it."
            )
        path = folder / NODE
        values = read_file(path)
        unknown = [key for key in values if key not in ("name", "fingerprint", "listen")]
        if unknown:
            raise ConfigError(f"{path}: unknown key {unknown[0]!r}. Known keys: name, fingerprint, listen.")
        for key in ("name", "fingerprint"):
            if not isinstance(values.get(key), str):
                raise ConfigError(f"{path}: the key {key!r} is missing, or not text. {_ACCEPT}")
        listen = values.get("listen")
        if listen is not None:
            endpoints.checked(str(listen))
        network = NetworkFile.read(folder / NETWORK)
        if network.fingerprint != values["fingerprint"]:
            raise ConfigError(
                f"{folder / NETWORK} has the fingerprint {network.fingerprint}, and {path} has accepted "
                f"{values['fingerprint']}. If the network was changed on purpose: {_ACCEPT}"
            )
        kit = cls(folder, values["name"], network, KeyPair.load(folder / SECRET), listen)
        if kit.keys.public != kit.entry.public_key:
            raise CurveKeyError(
                f"{folder / SECRET} has the public key {kit.keys.public}, and {kit.name!r} has the public key "
                f"{kit.entry.public_key} in the network file. Use the right key, or have the network file changed."
            )
        return kit


_ACCEPT = "Compare the fingerprint with the others, then run `barymesh network accept network.toml KIT`."


def accept(network: NetworkFile, folder: Path) -> Kit:
    """Put the network into the kit that has ``secret.key``. The key determines which node it is. If the network has the
    key in ``next.key``, that takes the place of the old one."""
    names = {node.public_key: node.name for node in network.nodes}
    public = KeyPair.load(folder / SECRET).public
    rotated = public not in names and (folder / NEXT_SECRET).exists()
    if rotated:
        public = KeyPair.load(folder / NEXT_SECRET).public
    if public not in names:
        raise CurveKeyError(
            f"No node of the network has the public key {public} of {folder}. Send it to the person who makes the "
            "network, for `barymesh network add` or `rotate-key`."
        )
    listen = read_file(folder / NODE).get("listen") if (folder / NODE).exists() else None
    if rotated:
        os.replace(folder / NEXT_SECRET, folder / SECRET)
    write_kit(network, names[public], folder, listen)
    return Kit.open(folder)


def write_kit(network: NetworkFile, name: str, folder: Path, listen: str | None = None) -> None:
    """Write the public part of a kit."""
    network.write(folder / NETWORK)
    values = {"name": name, "fingerprint": network.fingerprint} | ({"listen": listen} if listen else {})
    write_text(folder / NODE, f"# A start-up kit of barymesh: barymesh node KIT --data FILE\n{tomli_w.dumps(values)}")
