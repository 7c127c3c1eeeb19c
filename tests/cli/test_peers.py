"""A network of organisations through the command line: real processes, own kits, one killed in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import barymesh as bm
from barymesh.cli.peers import register
from barymesh.cli.peers.network import parse_node
from barymesh.errors import OptionError
from barymesh.peers.kit import NEXT_SECRET, SECRET
from barymesh.peers.members import KITS
from barymesh.peers.network_file import NETWORK, NetworkFile
from barymesh.peers.node import READMIT
from barymesh.peers.status import query
from tests.ports import free_ports

MAIN = "import typer; from barymesh.cli.peers import register; app = typer.Typer(); register(app); app()"
ENVIRONMENT = {**os.environ, "BARYMESH_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
# a guard against hanging
PATIENCE = 80

app = typer.Typer()
register(app)


def call(*arguments, code=0):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert isinstance(done.exception, SystemExit | None), done.exception
    assert done.exit_code == code, done.output
    return done


@pytest.fixture
def trial(tmp_path):
    """Three organisations in a row, the last with its own key, and data for each."""
    public = json.loads(call("keygen", tmp_path / "own", "--json").stdout)["public_key"]
    ports = free_ports(6)
    specs = [f"{name}=tcp://127.0.0.1:{ports[k]},status={ports[k + 3]}" for k, name in enumerate("abc")]
    specs[2] += f",key={public}"
    call(
        "network", "create", tmp_path / "trial", *(part for spec in specs for part in ("--node", spec)),
        "--support", "20:-3:3", "--reg", 0.3, "--graph", "path", "--interval", 0.1,
    )  # fmt: skip
    call("network", "accept", tmp_path / "trial" / NETWORK, tmp_path / "own")
    kits = [tmp_path / "trial" / KITS / "a", tmp_path / "trial" / KITS / "b", tmp_path / "own"]
    for k, kit in enumerate(kits):
        np.savetxt(kit / "x.csv", np.random.default_rng(k).normal(k - 1, 0.5, 30), header="x", comments="")
    return tmp_path / "trial" / NETWORK, kits


def started(kit, *options):
    command = [sys.executable, "-c", MAIN, "node", str(kit), "--data", str(kit / "x.csv"), "--json", *options]
    command += [] if "--picture" in options else ["--yes", "--no-picture"]
    return subprocess.Popen(
        command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def until(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.1)


def test_three_processes_reach_the_barycenter_though_one_is_killed(trial):
    path, kits = trial
    ports = [node.status_port for node in NetworkFile.read(path).nodes]
    truth = bm.barycenter(
        [bm.read_measures([kit / "x.csv"])[0] for kit in kits], np.linspace(-3, 3, 20), reg=0.3, tol=1e-10
    )
    # the first keeps running, to be asked and stopped; the others end by themselves
    running = [started(kit, *(["--stay"] if k == 0 else [])) for k, kit in enumerate(kits)]
    try:
        until(lambda: all(((query(port) or {}).get("activations") or 0) >= 10 for port in ports), "all nodes work")
        running[2].send_signal(signal.SIGKILL)
        running[2].communicate(timeout=PATIENCE)
        states = {one["name"]: one["state"] for one in json.loads(call("status", path, "--json").stdout)}
        assert states["b"].partition(", does not contribute")[0] in ("working", "waiting for c")
        # the kit of c is not beside the network file: it is asked for where it is
        assert states["c"].startswith("not on this machine; seen by b: ")
        assert "has left no note of its end" in call("status", kits[2] / "run", code=4).stdout
        running[2] = started(kits[2])
        until(lambda: all((query(port) or {}).get("stopped") for port in ports), "all have converged")
        assert call("status", path).stdout.count("converged") == 3
        secret = (kits[0] / SECRET).read_text().split('secret = "')[1][:40]
        assert secret not in json.dumps(query(ports[0]))
        for process in running[1:]:
            output, errors = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0, errors
            assert json.loads(output)["ending"] == "converged"
        running[0].terminate()
        output, errors = running[0].communicate(timeout=PATIENCE)
        assert (running[0].returncode, json.loads(output)["ending"]) == (0, "stopped"), errors
        assert secret not in output + errors
        # all have ended as they should, and the status says so
        states = {one["name"]: one["state"] for one in json.loads(call("status", path, "--json").stdout)}
        assert all(states[name].startswith("ended well at ") for name in "ab")
        assert "ended well at" in call("status", kits[2]).stdout
    finally:
        for process in running:
            process.kill()
            process.communicate()
    for kit in kits:
        assert 0.5 * np.abs(bm.load(kit / "run" / "result.npz").weights - truth.weights).sum() < 1e-4


def test_ctrl_c_saves_the_result_and_has_its_own_exit_code(trial):
    path, kits = trial
    port = NetworkFile.read(path).nodes[0].status_port
    process = started(kits[0], "--folder", str(kits[0] / "elsewhere"))
    try:
        until(lambda: query(port) is not None, "the node works")
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, json.loads(output)["ending"]) == (130, "stopped")
    assert (kits[0] / "elsewhere" / "result.npz").exists()


def test_a_node_that_has_not_taken_the_new_file_is_still_ours(trial):
    path, kits = trial
    before = NetworkFile.read(path)
    process = started(kits[0])
    try:
        until(lambda: query(before.nodes[0].status_port) is not None, "the node works")
        call("network", "add", path, "--node", "d=tcp://127.0.0.1:5999", "--to", "c")
        assert f"runs with another network file: {before.fingerprint}" in call("status", path).stdout
    finally:
        process.kill()
        process.communicate()


def test_refusals_before_any_work(trial):
    _, kits = trial
    data = ("--data", kits[0] / "x.csv")
    (kits[0] / SECRET).chmod(0o644)
    assert "open to other users" in call("node", kits[0], *data, code=3).output
    (kits[1] / SECRET).unlink()
    call("keygen", kits[1])
    assert "in the network file" in call("node", kits[1], *data, code=3).output
    assert "another run" not in call("node", kits[2], "--data", kits[2] / "none.csv", code=3).output
    assert "There is no kit" in call("node", kits[2] / "none", *data, code=3).output
    assert "exists already" in call("keygen", kits[2], code=3).output
    assert not (kits[2] / "run").exists()


def test_a_check_from_the_command_line(trial):
    _, kits = trial
    output = call("node", kits[0], "--data", kits[0] / "x.csv", "--check").stdout
    assert "ok      key" in output
    assert "ok      disk" in output
    (kits[0] / "run").write_text("a file")
    output = call("node", kits[0], "--data", kits[0] / "x.csv", "--check", code=3).stdout
    assert "NOT OK  disk" in output
    assert "not yet neighbour b: is not up yet" in output


def test_nodes_are_added_and_removed(trial):
    path, _ = trial
    before = NetworkFile.read(path).fingerprint
    output = call("network", "add", path, "--node", "d=tcp://127.0.0.1:5999", "--to", "c").stdout
    assert "accept" in output
    assert (path.parent / KITS / "d" / SECRET).exists()
    call("network", "remove", path, "b", code=3)
    call("network", "remove", path, "b", "--edge", "a,c")
    # two would not hide one another
    assert "--open" in call("network", "remove", path, "d", code=3).output
    after = NetworkFile.read(path)
    assert [node.name for node in after.nodes] == ["a", "c", "d"]
    assert after.fingerprint != before


def test_a_network_is_masked_unless_it_is_open(trial, tmp_path):
    masked = NetworkFile.read(trial[0])
    assert (masked.masks, masked.method, masked.min_members) == (True, "rounds", 3)
    pair = [
        "--node",
        "a=tcp://127.0.0.1:5998",
        "--node",
        "b=tcp://127.0.0.1:5999",
        "--support",
        "20:-3:3",
        "--reg",
        0.3,
    ]
    assert "masks need 3 nodes" in call("network", "create", tmp_path / "pair", *pair, code=3).output
    assert "Reports are not masked" in call("network", "create", tmp_path / "pair", *pair, "--open").stdout
    row = [*pair, "--node", "c=tcp://127.0.0.1:5003", "--graph", "path"]
    assert "a, c: one neighbour only" in call("network", "create", tmp_path / "row", *row).stdout
    assert "one neighbour only" not in call("network", "create", tmp_path / "open", *row, "--open").stdout
    known = NetworkFile.read(tmp_path / "pair" / NETWORK)
    assert (known.masks, known.method) == (False, "sinkhorn")


def test_a_key_is_rotated(trial):
    path, kits = trial
    public = json.loads(call("keygen", kits[0], "--next", "--json").stdout)["public_key"]
    assert "in any order" in call("network", "rotate-key", path, "a", "--key", public).stdout
    call("network", "rotate-key", path, "a", "--key", public, code=3)
    call("network", "accept", path, kits[0])
    assert public in (kits[0] / SECRET).read_text()
    assert not (kits[0] / NEXT_SECRET).exists()
    # the others keep theirs
    call("network", "accept", path, kits[1])


def test_nobody_is_readmitted_where_no_node_runs(trial, monkeypatch):
    monkeypatch.setattr(sys.modules["barymesh.cli.peers.node"], "READMIT_SECONDS", 0.1)
    _, kits = trial
    # there has never been one
    assert "No node runs" in call("readmit", kits[0], "b", code=3).output
    assert not (kits[0] / "run").exists()
    (kits[0] / "run").mkdir()
    assert "No node runs" in call("readmit", kits[0], "b", code=3).output
    assert list((kits[0] / "run").iterdir()) == []
    call("readmit", kits[0], "nobody", code=3)


def test_a_node_of_another_user_can_read_whom_it_is_to_readmit(trial, monkeypatch):
    """Whatever the umask of whoever gives the command."""
    command, modes = sys.modules["barymesh.cli.peers.node"], []
    path = trial[1][0] / "run" / READMIT
    path.parent.mkdir()

    def sleep(_):
        modes.append(path.stat().st_mode & 0o777)
        path.unlink()

    monkeypatch.setattr(command.time, "sleep", sleep)
    before = os.umask(0o077)
    try:
        call("readmit", trial[1][0], "b")
    finally:
        os.umask(before)
    assert modes == [0o644]


def test_a_node_as_text():
    assert parse_node("a=tcp://h:1,records=12").records == 12
    node = parse_node("a=tcp://h:1,key=x=y,status=7")
    assert (node.name, node.endpoint, node.public_key, node.status_port) == ("a", "tcp://h:1", "x=y", 7)


@pytest.mark.parametrize("text", ["", "a", "=tcp://h:1", "a=", "a=tcp://h:1,status=x", "a=tcp://h:1,port=3"])
def test_a_node_that_is_not_valid(text):
    with pytest.raises(OptionError, match="not valid"):
        parse_node(text)


def test_nothing_is_computed_without_a_yes(trial):
    """The node shows what it will do, and waits. Its log names the phase from the first line on."""
    _, kits = trial
    command = [sys.executable, "-c", MAIN, "node", str(kits[0]), "--data", str(kits[0] / "x.csv"), "--duration", "0.5"]
    command += ["--no-picture"]
    for answer, code in ((None, 3), ("n\n", 3), ("y\n", 5)):
        done = subprocess.run(command, env=ENVIRONMENT, input=answer or "", capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        shown = done.stderr
        assert "starting: " in shown.splitlines()[0]
        for text in ("reading: ", "waiting for consent: ", "without differential privacy", "30 points", "Go on? [y/N]"):
            assert text in shown
        assert (kits[0] / "run" / "audit.jsonl").exists() is (code == 5)
    assert "waiting for b, does not contribute: there is no roll of members; it takes 3: after" in shown
    assert "ended: the duration is over" in shown
    assert "consent asked" in call("audit", kits[0] / "run").stdout


def test_the_result_of_a_node_and_a_budget(trial):
    """It is read as any other; only the owner may read it, as it has the duals. The table and the picture are for
    all."""
    _, kits = trial
    process = started(kits[0], "--duration", "0.5", "--yes", "--picture")
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 5, errors
    # nobody was asked, and yet it shows what it computes
    assert "agreed: They get:   potentials computed from the data, without differential privacy" in errors
    folder = kits[0] / "run"
    result = bm.load(folder / "result.npz")
    assert (result.status, result.measures) == (bm.Status.OUT_OF_TIME, 3)
    assert "barycenter of 3 measures on 20 points, gap unknown" in repr(result)
    table = np.loadtxt(folder / "weights.csv", delimiter=",", skiprows=1)
    np.testing.assert_allclose(table, np.column_stack([result.support.points, result.weights]))
    assert (folder / "barycenter.png").read_bytes().startswith(b"\x89PNG")
    for name in ("result.npz", "state", "audit.jsonl"):
        assert (folder / name).stat().st_mode & 0o777 == 0o600, name
    # a budget counts that run too
    (folder / "state").unlink()
    options = ("--data", kits[0] / "x.csv", "--yes", "--epsilon", 1, "--delta", 1e-6, "--budget", 8)
    assert "epsilon inf, and the budget is 8" in call("node", kits[0], *options, "--folder", folder, code=3).stderr
