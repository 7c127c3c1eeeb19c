"""A Ray cluster: the same barycenter, whoever is killed on the way, and nobody gets in without the token."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import ray

import barymesh as bm
from barymesh.core import kernels
from barymesh.engines.ray import ONE_MACHINE, RemoteWorker
from barymesh.engines.supervisor import assignments
from barymesh.errors import MeasureError, NetworkError, OptionError
from barymesh.metrics import total_variation
from barymesh.network import as_network
from barymesh.options import RunOptions
from barymesh.problem import Problem
from barymesh.resources.cores import set_threads
from tests.docs.blocks import ROOT
from tests.docs.running import run_page
from tests.engines.loaders import MEASURES, POINTS, called, check_certificate, fail, known, staying

# this module's folder of packages, for processes of its own
HERE = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cluster():
    """One of our own, for all tests: its start takes long. They find that this process is connected already."""
    from barymesh.engines.ray import connected

    with connected(None, 2):
        yield ray.get_runtime_context().gcs_address
    assert not ray.is_initialized()


def test_a_cluster_of_our_own_listens_on_this_machine_only(cluster):
    """Where the operating system has more than one address for this machine, the others are closed."""
    (machine,) = ray.nodes()
    assert machine["NodeManagerAddress"] == "127.0.0.1"
    ports = [machine["NodeManagerPort"], machine["ObjectManagerPort"], int(cluster.rpartition(":")[2])]
    for port in ports:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        with pytest.raises((ConnectionRefusedError, TimeoutError)):
            socket.create_connection(("127.0.0.2", port), timeout=5)


def run(measures=MEASURES, **options):
    options = {"network": "cycle", "reg": 0.3, "duration": 120, "workers": 2, "record_every": 0.2, **options}
    return bm.barycenter(measures, POINTS, engine="ray", progress=False, **options)


def exact(measures=MEASURES, reg=0.3, **options):
    return bm.barycenter(measures, POINTS, reg=reg, tol=1e-10, progress=False, **options)


def processes():
    """(process, its parent, its session, its name) of all there are."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            numbers = (folder / "stat").read_text().rpartition(")")[2].split()
            name = (folder / "cmdline").read_bytes().split(b"\0")[0].decode()
        except OSError:
            continue
        if numbers[0] != "Z":
            found.append((int(folder.name), int(numbers[1]), int(numbers[3]), name))
    return found


def stations():
    """The workers of this process's own cluster: grandchildren."""
    everybody = processes()
    children = {process for process, parent, _, _ in everybody if parent == os.getpid()}
    return sorted(process for process, parent, _, name in everybody if parent in children and "RemoteWorker" in name)


def all_gone():
    """Whether Ray has ended all workers, for which it is given some time."""
    for _ in range(200):
        if not stations():
            return True
        time.sleep(0.1)
    return False


def holder(file):
    """The worker that has the file open, if there is one."""
    for process in stations():
        with suppress(OSError):
            if any(link.resolve() == file for link in Path(f"/proc/{process}/fd").iterdir()):
                return process
    return None


def test_it_ends_where_the_exact_solver_does(cluster):
    weights = [1, 2, 3, 1, 1, 1]
    result = run(weights=weights, reference=True)
    assert result.status is bm.Status.CONVERGED
    np.testing.assert_allclose(result.weights, exact(weights=weights).weights, atol=1e-6)
    assert 0 <= result.gap < 1e-4
    assert result.history["tv"][-1] < 1e-6
    assert (result.node_errors <= 1e-5).all()
    assert result.bytes > result.messages * POINTS.size * 8
    assert all_gone()


def test_masks(cluster):
    result = run(method="rounds", masks=True)
    assert result.status is bm.Status.CONVERGED
    np.testing.assert_allclose(result.weights, exact().weights, atol=1e-6)


def test_killed_workers_are_started_again(cluster, tmp_path):
    """Both are killed in the middle of their work. The first finds its memory; that of the second is gone, as on
    another machine."""
    killed, back, again, records = [], [], [], []

    def kill(record):
        records.append(record)
        done = len(records)
        if len(killed) == 2:
            states = tmp_path.glob("barymesh-*/1/*.state")
            again.extend(done for state in states if holder(state) not in (None, *killed))
            return len(again) > 10 and record.figures["tv"] < 1e-6
        (state,) = tmp_path.glob(f"barymesh-*/{len(killed)}/*.state")
        if killed and holder(tmp_path / state.parts[-3] / "0" / "0.state") not in (None, *killed):
            back.append(done)
        if (not killed and done > 3) or len(back) > 10:
            killed.append(holder(state))
            if back:
                state.unlink()
            os.kill(killed[-1], signal.SIGKILL)
        return False

    result = run(callback=kill, interval=0.05, tol=0, reference=True, folder=tmp_path)
    assert len(killed) == 2
    assert result.status is bm.Status.STOPPED
    np.testing.assert_allclose(result.weights, exact().weights, atol=1e-5)
    # what it did before it lost its memory counts too
    assert (np.diff(result.history["activations"]) >= 0).all()
    assert (np.diff(result.history["messages"]) >= 0).all()
    assert all_gone()
    assert not list(tmp_path.iterdir())


def test_measures_stay_where_they_are(cluster, tmp_path):
    """One of them on a machine that is named."""
    measures = staying(tmp_path, at=ray.util.get_node_ip_address())
    truth = exact(known(tmp_path), reg=2)

    def there(record):
        return total_variation(record.estimates(np.arange(record.size)), truth.weights) < 0.01

    result = run(measures, method="a2dwb_conserving", batch="exact", reg=2, interval=0.03, callback=there)
    nodes, loading = called(tmp_path)
    assert nodes == {0, 2}
    assert len(loading) == 2
    assert os.getpid() not in loading
    assert result.status is bm.Status.STOPPED
    assert np.abs(result.weights - truth.weights).sum() / 2 < 0.01
    check_certificate(result, known(tmp_path))


def test_a_loader_that_fails_is_named(cluster, tmp_path):
    measures = [*MEASURES[:4], bm.Lazy(fail, 4), MEASURES[5]]
    with pytest.raises(MeasureError, match=r"Measure 4: Lazy\(fail, 4\) cannot be loaded: KeyError.*no patients"):
        run(measures, folder=tmp_path)
    assert all_gone()
    assert not list(tmp_path.iterdir())


def test_a_worker_that_is_opened_after_it_has_left_makes_no_files(tmp_path):
    """Ray may carry out the calls to a worker in another order."""
    problem, network = Problem.create(MEASURES, POINTS, reg=0.3), as_network("cycle", len(MEASURES))
    (assignment,) = assignments(problem, network, RunOptions(method="sinkhorn"), [range(len(MEASURES))])

    async def ended_first():
        worker = RemoteWorker(assignment, "127.0.0.1", tmp_path)
        await worker.leave()
        with pytest.raises(NetworkError, match="has left the run"):
            await worker.open()

    threads = kernels.threads()
    asyncio.run(ended_first())
    set_threads(threads)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"workers": 0}, "workers"), ({"workers": 5}, "cores"), ({"address": 3}, "address"),
        ({"folder": 3}, "folder"),
        ({"address": "10.0.0.1:6379"}, "connected"), ({"delays": "constant:seconds=1"}, "simulation"),
        ({"method": "dcwb"}, "synchronous"), ({"measures": [bm.Lazy("a.csv", at="10.9.9.9")] * 6}, "no machine"),
    ],
)  # fmt: skip
def test_bad_options_are_named_before_anything_starts(options, said, cluster):
    with pytest.raises(OptionError, match=said):
        run(**options)
    assert all_gone()


def python(code, *arguments, **environment):
    """A process of its own, without this one's token."""
    kept = "RAY_worker_niceness"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_") or name == kept}
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        env={**clean, **environment}, cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def test_nobody_gets_in_without_the_token(cluster, tmp_path):
    code = """
        import sys
        from barymesh.engines.ray import connected
        with connected(sys.argv[1], 1) as own:
            print("in", own)
    """
    # one attempt, at the loopback address; and no token in the home folder
    common = {"RAY_NUM_REDIS_GET_RETRIES": "1", "HOME": str(tmp_path), ONE_MACHINE: "0"}
    tokens = [os.environ["RAY_AUTH_TOKEN"], "0" * 64, None]
    started = [python(code, cluster, **common, **({"RAY_AUTH_TOKEN": token} if token else {})) for token in tokens]
    (right, _), (wrong, why_wrong), (without, why_without) = [one.communicate(timeout=120) for one in started]
    assert right == "in None\n"
    assert wrong == without == ""
    assert "requires its token" in why_wrong
    assert "RAY_AUTH_TOKEN" in why_without
    for token in tokens[:2]:
        assert token not in why_wrong + why_without


def test_ctrl_c_returns_what_there_is_and_leaves_nothing_running():
    """In a process of its own, with a cluster of its own, interrupted as from a terminal: all its processes are."""
    started = python("""
        from tests.engines.test_ray import run
        def say(record):
            print("at work", flush=True)
        if __name__ == "__main__":
            result = run(tol=0, callback=say)
            print(result.status.name, 0 < result.gap < float("inf"))
    """)
    assert started.stdout.readline() == "at work\n"
    os.killpg(started.pid, signal.SIGINT)
    said, errors = started.communicate(timeout=120)
    assert said.splitlines()[-1] == "INTERRUPTED True", errors
    assert started.returncode == 0
    assert not [name for _, _, session, name in processes() if session == started.pid]


def test_where_ports_are_blocked_the_error_says_so():
    """In a network of its own, without a loopback interface."""
    apart = ["unshare", "--net", "--map-root-user"]
    if subprocess.run([*apart, "true"], capture_output=True).returncode:
        pytest.skip("no namespaces of our own here")
    code = "from barymesh.engines.ray import connected\nwith connected(None, 1): pass"
    done = subprocess.run([*apart, sys.executable, "-c", code], capture_output=True, text=True, cwd=HERE)
    assert "NetworkError: Programs on this machine cannot connect to one another at 127.0.0.1" in done.stderr


def test_without_ray_the_error_says_what_to_install():
    started = python("""
        import sys
        sys.modules["ray"] = None
        import barymesh as bm
        bm.barycenter([bm.Gaussian(0, 1)] * 3, [0.0, 1.0], reg=1, network="cycle", engine="ray")
    """)
    _, errors = started.communicate(timeout=120)
    assert "MissingPackageError" in errors
    assert "pip install 'barymesh[ray]'" in errors


def test_the_code_of_the_tutorial_runs(cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(ROOT / "docs" / "tutorials" / "ray.md")
