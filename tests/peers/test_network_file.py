"""The public network file and the kits: what is written is read again, and everything else is refused."""

from __future__ import annotations

import itertools
import os
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import barymesh as bm
from barymesh.errors import BarymeshError, ConfigError, FileError, WeightError
from barymesh.peers.kit import NODE, SECRET, Kit, accept
from barymesh.peers.members import KITS, NewNode, add, create, declare, remove
from barymesh.peers.network_file import METHODS, NETWORK, NetworkFile
from barymesh.peers.node import own_problem
from barymesh.transport.keys import CurveKeyError, KeyPair

KEYS = [KeyPair.create().public for _ in range(6)]
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,20}", fullmatch=True)


@st.composite
def network_files(draw):
    names = draw(st.lists(NAMES, min_size=2, max_size=6, unique=True))
    ports = draw(st.lists(st.integers(1, 65535), min_size=len(names), max_size=len(names), unique=True))
    nodes = [
        {"name": name, "endpoint": f"tcp://127.0.0.1:{port}", "public_key": key, "status_port": status}
        for name, port, key, status in zip(
            names, ports, KEYS, draw(st.tuples(*[st.none() | st.integers(1, 65535)] * 6)), strict=False
        )
    ]
    return NetworkFile(
        run=draw(NAMES),
        method=draw(st.sampled_from(METHODS)),
        support=f"{draw(st.integers(2, 50))}:-1:{draw(st.floats(0, 1e6))}",
        reg=draw(st.floats(1e-300, 1e300)),
        tol=draw(st.floats(0, 1)),
        interval=draw(st.floats(0, 3600)),
        began=draw(st.datetimes(datetime(1971, 1, 1), datetime(8999, 1, 1), timezones=st.just(UTC))),
        edges=[list(pair) for pair in itertools.pairwise(names)],
        nodes=nodes,
    )


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(network_files())
def test_what_is_written_is_read_again(tmp_path, known):
    known.write(tmp_path / NETWORK)
    again = NetworkFile.read(tmp_path / NETWORK)
    assert again == known
    assert again.fingerprint == known.fingerprint
    assert again.network().size == len(known.nodes)
    # byte by byte, below the comment at the head
    assert again.toml() == (tmp_path / NETWORK).read_text()
    assert again.toml().startswith("# A network of barymesh.")


def test_the_fingerprint_depends_on_the_content_alone():
    """Written by another version of barymesh, a network keeps its fingerprint."""
    nodes = [{"name": name, "endpoint": f"tcp://h:{port}", "public_key": key} for name, port, key in ONCE]
    known = NetworkFile(
        run="trial", support="20:-3:3", reg=0.3, began=datetime(2025, 1, 2, tzinfo=UTC), edges=[["a", "b"]], nodes=nodes
    )
    assert known.fingerprint == "hqdh-c6gn-gmcu-3nry-7ico-mlnq"


ONCE = [
    ("a", 1, "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"),
    ("b", 2, "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLW{hID"),
]


NODES = [NewNode(name, f"tcp://127.0.0.1:{5000 + k}") for k, name in enumerate("abc")]
PATH = [("a", "b"), ("b", "c")]


@pytest.fixture
def made(tmp_path):
    """A network of three in a folder."""
    create(tmp_path, NODES, PATH, support="20:-3:3", reg=0.3, run="trial")
    return tmp_path


def kit_of(folder, name="a"):
    return folder / KITS / name


def changed(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_every_node_gets_a_private_kit(made):
    for number, name in enumerate("abc"):
        kit = Kit.open(kit_of(made, name))
        assert (kit.name, kit.number) == (name, number)
        assert (kit_of(made, name) / SECRET).stat().st_mode & 0o777 == 0o600
        assert kit.keys.secret not in (made / NETWORK).read_text() + repr(kit)
    assert kit.network.network().edges.tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("reg = 0.3", "reg = 0.4", "fingerprint"),
        ("reg = 0.3", "reg = -1", "reg"),
        ("reg = 0.3", "reg = nan", "reg"),
        ("reg = 0.3", "", "'reg' is missing"),
        ("reg = 0.3", "reg = 0.3\nrge = 1", "unknown key 'rge'"),
        ("reg = 0.3", "reg = ", "not valid TOML"),
        ("reg = 0.3", f"reg = {'9' * 6000}", "a number that cannot be read"),
        ("format = 1", "format = 2", "format"),
        ('"sinkhorn"', '"dcwb"', "synchronous"),
        ('"sinkhorn"', '"magic"', "no method 'magic'"),
        ('"20:-3:3"', '"auto"', "could differ"),
        ('"20:-3:3"', '"points.csv"', "could differ"),
        ('"20:-3:3"', '"20:-3"', "not understood"),
        ('"trial"', '"a b"', "run id"),
        ("interval = 0.05", "interval = -1", "interval"),
        ("began = 2", 'began = "x" #', "began"),
        ('"a",\n        "b"', '"a", "z"', "no node 'z'"),
        ('"a",\n        "b"', '"a", "b", "c"', "must be a pair"),
        ('    [\n        "a",\n        "b",\n    ],\n', "", "connected"),
        ('name = "a"', 'name = "b"', "same name 'b'"),
        ('name = "a"', 'name = "../a"', "'../a'"),
        ("127.0.0.1:5000", "127.0.0.1:5001", "same endpoint"),
        ("127.0.0.1:5000", "127.0.0.1:0", "must have a host and a port"),
        ("127.0.0.1:5000", "*:5000", "must have a host and a port"),
        ("tcp://127.0.0.1:5000", "http://x", "nodes[0].endpoint"),
        ('public_key = "', 'public_key = "x', "malformed"),
        ('name = "a"', 'name = "a"\nstatus_port = 70000', "nodes[0].status_port"),
        ('name = "a"', 'name = "a"\nsecret = "x"', "unknown key 'nodes[0].secret'"),
        ('fingerprint = "', 'fingerprint = "x', "fingerprint"),
    ],
)
def test_a_changed_file_is_refused_with_the_reason(made, old, new, reason):
    changed(made / NETWORK, old, new)
    with pytest.raises(ConfigError) as refusal:
        NetworkFile.read(made / NETWORK)
    assert reason in str(refusal.value)
    assert str(made / NETWORK) in str(refusal.value)


def test_two_nodes_with_one_key_are_refused(tmp_path):
    nodes = [NewNode(one.name, one.endpoint, KEYS[0]) for one in NODES]
    with pytest.raises(ConfigError, match="same public key"):
        create(tmp_path, nodes, PATH, support="20:-3:3", reg=0.3)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileError, match=NETWORK):
        NetworkFile.read(tmp_path / NETWORK)
    with pytest.raises(FileError, match="There is no kit"):
        Kit.open(tmp_path / "none")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="is a pipe"):
        NetworkFile.read(tmp_path / "pipe")


def test_no_file_is_replaced(made):
    with pytest.raises(FileError, match="exists already"):
        create(made, NODES, PATH, support="20:-3:3", reg=0.3)
    (made / NETWORK).unlink()
    with pytest.raises(FileError, match="may hold a key"):
        create(made, NODES, PATH, support="20:-3:3", reg=0.3)


def test_a_secret_that_others_can_read_is_refused(made):
    (kit_of(made) / SECRET).chmod(0o644)
    with pytest.raises(CurveKeyError, match="open to other users"):
        Kit.open(kit_of(made))


def test_a_wrong_or_missing_key_is_refused_without_showing_it(made):
    (kit_of(made) / SECRET).unlink()
    with pytest.raises(FileError, match="secret key"):
        Kit.open(kit_of(made))
    other = KeyPair.create()
    other.save(kit_of(made) / SECRET)
    with pytest.raises(CurveKeyError, match="in the network file") as refusal:
        Kit.open(kit_of(made))
    assert other.secret not in str(refusal.value)


@pytest.mark.parametrize(
    ("old", "new"),
    [('name = "a"', 'name = "z"'), ('name = "a"', ""), ('fingerprint = "', 'fingerprint = "x'), ("name", "x = 1\nname"),
     ('name = "a"', 'name = "a"\nlisten = "x"')],
)  # fmt: skip
def test_a_kit_that_does_not_fit_its_network_is_refused(made, old, new):
    changed(kit_of(made) / NODE, old, new)
    with pytest.raises(BarymeshError):
        Kit.open(kit_of(made))


def test_a_node_is_added_and_the_others_must_accept_it(made):
    before = NetworkFile.read(made / NETWORK)
    after = add(made / NETWORK, NewNode("d", "tcp://127.0.0.1:5009"), ["a", "c"])
    assert after == NetworkFile.read(made / NETWORK)
    assert after.fingerprint != before.fingerprint
    assert Kit.open(kit_of(made, "d")).number == 3
    assert Kit.open(kit_of(made)).network == before
    after.write(kit_of(made) / NETWORK)
    with pytest.raises(ConfigError, match="has accepted"):
        Kit.open(kit_of(made))
    assert accept(after, kit_of(made)).network == after


def test_a_node_can_be_removed_if_the_others_stay_connected(made):
    with pytest.raises(ConfigError, match="connected"):
        remove(made / NETWORK, "b")
    after = remove(made / NETWORK, "b", [("a", "c")])
    assert [node.name for node in after.nodes] == ["a", "c"]
    with pytest.raises(CurveKeyError, match="No node"):
        accept(after, kit_of(made, "b"))


def test_an_own_key_needs_no_kit_from_others(tmp_path):
    own = KeyPair.create()
    own.save(tmp_path / "own" / SECRET)
    nodes = [NewNode("a", "tcp://127.0.0.1:5000", own.public), *NODES[1:]]
    known = create(tmp_path / "net", nodes, PATH, support="20:-3:3", reg=0.3)
    assert sorted(one.name for one in (tmp_path / "net" / KITS).iterdir()) == ["b", "c"]
    assert accept(known, tmp_path / "own").name == "a"


def test_weights_are_declared_and_part_of_the_fingerprint(tmp_path):
    nodes = [NewNode("a", "tcp://127.0.0.1:1"), NewNode("b", "tcp://127.0.0.1:2", weight=3.0)]
    known = create(tmp_path, nodes, [("a", "b")], support="5:0:1", reg=0.1)
    again = NetworkFile.read(tmp_path / NETWORK)
    assert [node.weight for node in again.nodes] == [1.0, 3.0]
    assert again.relative_weights().tolist() == [0.5, 1.5]
    other = known.model_dump()
    other["nodes"][1]["weight"] = 2.0
    assert NetworkFile(**other).fingerprint != known.fingerprint


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf"), 1e-4, 1001.0])
def test_weights_are_capped(tmp_path, weight):
    nodes = [NewNode("a", "tcp://127.0.0.1:1"), NewNode("b", "tcp://127.0.0.1:2", weight=weight)]
    with pytest.raises(ConfigError, match="weight"):
        create(tmp_path, nodes, [("a", "b")], support="5:0:1", reg=0.1)


def test_a_weight_is_refused_where_the_step_depends_on_all(tmp_path):
    nodes = [NewNode("a", "tcp://127.0.0.1:1"), NewNode("b", "tcp://127.0.0.1:2", weight=2.0)]
    with pytest.raises(ConfigError, match="sinkhorn"):
        create(tmp_path, nodes, [("a", "b")], support="5:0:1", reg=0.1, method="a2dwb_conserving")


def by_size(folder, *records, **options):
    nodes = [
        NewNode(name, f"tcp://127.0.0.1:{k + 1}", records=count)
        for k, (name, count) in enumerate(zip("abc", records, strict=False))
    ]
    pairs = list(itertools.pairwise(node.name for node in nodes))
    return create(folder, nodes, pairs, support="9:-1:1", reg=0.1, **{"weights": "size", **options})


def test_weights_by_size_are_the_declared_numbers_of_records(tmp_path):
    made = by_size(tmp_path, 100, 300)
    again = NetworkFile.read(tmp_path / NETWORK)
    assert again.fingerprint == made.fingerprint
    assert again.node_weights().tolist() == again.relative_weights().tolist() == [0.5, 1.5]
    assert Kit.open(tmp_path / KITS / "b").weight == 1.5
    changed = declare(tmp_path / NETWORK, "a", records=300)
    assert changed.fingerprint != made.fingerprint
    assert changed.node_weights().tolist() == [1.0, 1.0]
    joined = add(tmp_path / NETWORK, NewNode("c", "tcp://127.0.0.1:3", records=600), ["a"])
    assert joined.node_weights().tolist() == [0.75, 0.75, 1.5]


@pytest.mark.parametrize(
    ("records", "options", "why"),
    [
        ((100, None), {}, "'b' declares none"),
        ((100, 0), {}, "records"),
        ((1, 10**6), {}, "times the average weight"),
        ((100, 300), {"weights": "declared"}, "not by size"),
        ((100, 300), {"method": "a2dwb_conserving"}, "needs weights of 1"),
        ((100, 300), {"weights": "mass"}, "weights"),
    ],
)
def test_records_that_cannot_be_weights(tmp_path, records, options, why):
    with pytest.raises(ConfigError, match=why):
        by_size(tmp_path, *records, **options)


def test_data_must_have_the_number_of_records_that_was_declared(tmp_path):
    by_size(tmp_path, 3, 5)
    kit = Kit.open(tmp_path / KITS / "a")
    assert own_problem(kit, bm.Empirical([[0.1], [0.2], [0.3]])).measures[0].records == 3
    for measure, found in ((bm.Empirical([[0.1], [0.2]]), "have 2"), (bm.Gaussian(0, 1), "no records to count")):
        with pytest.raises(WeightError, match=found):
            own_problem(kit, measure)
