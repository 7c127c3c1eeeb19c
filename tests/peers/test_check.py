"""``--check``: every part that a run needs is looked at, and what is wrong here is told from what is not up yet."""

from __future__ import annotations

import asyncio
import socket
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from barymesh.io.files import read_measure
from barymesh.peers import audit
from barymesh.peers import check as check_module
from barymesh.peers.check import Verdict, check
from barymesh.peers.kit import SECRET, Kit
from barymesh.peers.members import KITS
from barymesh.peers.network_file import NETWORK, NetworkFile
from barymesh.peers.node import STATE, PrivacyLevel, open_peer
from barymesh.peers.states import state_text
from barymesh.privacy.ledger import LEDGER
from barymesh.transport.keys import KeyPair
from tests.peers.test_node import network_of


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(check_module, "_REACH_TIMEOUT", 0.3)


def data_in(folder, values=(0.1, 0.2)):
    np.savetxt(folder / "x.csv", np.array(values), header="x", comments="")
    return folder / "x.csv"


async def found_by(folder, data, state=None, **options):
    found = await check(folder, data, state=folder / "run" if state is None else state, **options)
    return {one.what: one for one in found}


def verdicts(found):
    return {what: one.verdict for what, one in found.items() if one.verdict is not Verdict.OK}


@pytest.mark.parametrize(
    ("values", "ok", "text"),
    [
        ([200.0, 300.0], False, "100.0% lie outside"),
        ([0.1, 0.2, 300.0], False, "33.3% lie outside"),
        ([0.1, 0.2, 300.0], False, "more than 2 times the largest"),
        ([0.1, 0.2, 5.0], True, "33.3% lie outside"),
        ([0.1, 0.2], True, "fit Support"),
    ],
)
def test_data_that_the_support_misses(tmp_path, values, ok, text):
    network_of(tmp_path)
    found = asyncio.run(found_by(tmp_path / KITS / "a", data_in(tmp_path, values)))["data"]
    assert (found.verdict is Verdict.OK) is ok
    assert text in found.text
    assert ("About" in found.text) is (max(values) > 3)


def test_every_problem_is_reported(tmp_path):
    known = network_of(tmp_path, began=datetime.now(UTC) + timedelta(hours=1), method="a2dwb_conserving")
    folder, data = tmp_path / KITS / "a", data_in(tmp_path)
    found = asyncio.run(found_by(folder, data))
    assert verdicts(found) == {"clock": Verdict.WRONG, "neighbour b": Verdict.LATER}
    assert "Set the clock" in found["clock"].text
    assert not (folder / "run").exists()
    here = int(known.nodes[0].endpoint.rpartition(":")[2])
    with socket.create_server(("127.0.0.1", here)):
        found = asyncio.run(found_by(folder, tmp_path / "none.csv"))
    assert {what for what, one in verdicts(found).items() if one is Verdict.WRONG} == {"clock", "endpoint", "data"}
    (folder / SECRET).chmod(0o640)
    found = asyncio.run(found_by(folder, data))
    assert list(found) == ["kit"]
    assert "chmod 600" in found["kit"].text
    (folder / NETWORK).unlink()
    assert verdicts(asyncio.run(found_by(folder, data))) == {"kit": Verdict.WRONG}


def test_a_slow_clock_does_no_harm_to_methods_without_a_step(tmp_path):
    network_of(tmp_path, began=datetime.now(UTC) + timedelta(minutes=10))
    found = asyncio.run(found_by(tmp_path / KITS / "a", data_in(tmp_path)))
    assert verdicts(found) == {"clock": Verdict.LATER, "neighbour b": Verdict.LATER}
    assert "sinkhorn works with any clock" in found["clock"].text


def with_other_key(folder, name):
    """The kit of a node that has made a new key, and a network file of its own that has it."""
    keys = KeyPair.create()
    (folder / SECRET).unlink()
    keys.save(folder / SECRET)
    known = NetworkFile.read(folder / NETWORK)
    entries = [{**one.model_dump(), **({"public_key": keys.public} if one.name == name else {})} for one in known.nodes]
    changed = NetworkFile.checked({**known.model_dump(), "nodes": entries}, "test")
    changed.write(folder / NETWORK)
    node = folder / "node.toml"
    node.write_text(node.read_text().replace(known.fingerprint, changed.fingerprint))
    return Kit.open(folder)


@pytest.mark.parametrize("whose", ["nobody's", "ours", "theirs"])
def test_a_neighbour_that_is_up_and_a_key_that_is_wrong(tmp_path, monkeypatch, whose):
    """With real sockets: the keys are right, ours is not the one that b knows, or b has another than we know."""
    monkeypatch.setattr(check_module, "_REACH_TIMEOUT", 20)
    network_of(tmp_path)
    data, folders = data_in(tmp_path), {name: tmp_path / KITS / name for name in "ab"}
    if whose == "ours":
        with_other_key(folders["a"], "a")
    elif whose == "theirs":
        with_other_key(folders["b"], "b")

    async def work():
        other = await open_peer(Kit.open(folders["b"]), read_measure(data), tmp_path / "b")
        running = [asyncio.create_task(other.run())]
        found = await found_by(folders["a"], data)
        # a run finds the same
        own = await open_peer(Kit.open(folders["a"]), read_measure(data), tmp_path / "a")
        running.append(asyncio.create_task(own.run()))
        async with asyncio.timeout(60):
            while not state_text(own.facts()).startswith(states[whose]):
                await asyncio.sleep(0.05)
        for peer in (own, other):
            peer.stop()
        await asyncio.gather(*running)
        return found

    states = {
        "nobody's": ("working", "converged"),
        "ours": "cut off by b since ",
        "theirs": "wrong key at b since ",
    }
    found = asyncio.run(work())
    assert verdicts(found) == ({} if whose == "nobody's" else {"neighbour b": Verdict.WRONG})
    expected = {"nobody's": "right keys", "ours": "does not admit our key", "theirs": "is not the peer with the key"}
    assert expected[whose] in found["neighbour b"].text


def test_state_ledger_audit_log_and_disk(tmp_path, monkeypatch):
    network_of(tmp_path)
    folder, data, state = tmp_path / KITS / "a", data_in(tmp_path, np.linspace(-1, 1, 500)), tmp_path / "state"
    level = PrivacyLevel(1.0, 1e-6)

    async def run():
        peer = await open_peer(Kit.open(folder), read_measure(data), state, level)
        await peer.run(duration=0.1)

    async def bad(data=data, **options):
        found = await found_by(folder, data, state, **{"privacy": level, **options})
        return {what: one.text for what, one in found.items() if one.verdict is Verdict.WRONG}, found

    asyncio.run(run())
    wrong, found = asyncio.run(bad(budget=1.0))
    assert wrong == {}
    assert "activations" in found["state"].text
    assert "1 uses of data so far; with this one epsilon 1 in all" in found["ledger"].text
    # other privacy: another release, and the state belongs to the first
    wrong, _ = asyncio.run(bad(privacy=PrivacyLevel(0.5, 1e-6), budget=1.0))
    assert "another run" in wrong["state"]
    assert "budget is 1" in wrong["ledger"]
    wrong, _ = asyncio.run(bad(privacy=None, budget=10.0))
    assert "epsilon inf" in wrong["ledger"]
    (state / STATE).write_bytes(b"something else")
    (state / LEDGER).write_bytes(b"{")
    (state / audit.AUDIT).write_text((state / audit.AUDIT).read_text().replace('"epsilon": 1.0', '"epsilon": 0.1'))
    monkeypatch.setattr(check_module, "_LEAST_FREE", 2**60)
    wrong, _ = asyncio.run(bad())
    assert dict.fromkeys(wrong, True) == dict.fromkeys(("state", "ledger", "audit", "disk"), True)
    assert "line 1 was changed" in wrong["audit"]
