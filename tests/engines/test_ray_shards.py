"""The exact solver on a Ray cluster of several machines, as far as one machine can show it: raylets with ports and
resources of their own, of which one is killed."""

from __future__ import annotations

import os
import signal
import time
from functools import partial

import numpy as np
import pytest
import ray
from ray.cluster_utils import Cluster

import barymesh as bm
from barymesh.engines import ray_shards
from barymesh.engines.shard_host import ShardHost, ShardPlace
from barymesh.errors import FileError, MeasureError, NetworkError, OptionError
from barymesh.problem import Problem
from tests.engines.test_ray import processes, python

POINTS = np.linspace(-3, 3, 40)
GAUSSIANS = [bm.Gaussian(mean, 0.3 + 0.05 * k) for k, mean in enumerate(np.linspace(-2, 2, 5))]
GRID = bm.Support.regular((12, 12), 0, 1)
# the caller's, and two more
MACHINES = 3
# a guard against hanging
PATIENCE = 120


@pytest.fixture(scope="module")
def cluster():
    """Three raylets. The caller's has no cores, so no shard is on it."""
    settings = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 300, "health_check_failure_threshold": 3}
    made = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "include_dashboard": False, "_system_config": settings},
    )
    for _ in range(MACHINES - 1):
        made.add_node(num_cpus=2)
    ray.init(made.address, log_to_driver=False, logging_level="ERROR")
    yield made
    ray.shutdown()
    made.shutdown()


def images(seed=0, count=30):
    return np.random.default_rng(seed).random((count, 12, 12)) ** 8


def run(measures=GAUSSIANS, support=POINTS, **options):
    options = {"reg": 0.1, "engine": "ray", "workers": 2, "progress": False, **options}
    return bm.barycenter(measures, support, **options)


def here(measures=GAUSSIANS, support=POINTS, **options):
    return bm.barycenter(measures, support, progress=False, **{"reg": 0.1, **options})


def same(one, other):
    """To the last bit."""
    assert one.status is other.status
    assert one.iterations == other.iterations
    for name in ("weights", "node_weights", "duals"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert (one.value, one.gap, one.consensus) == (other.value, other.gap, other.consensus)


@pytest.mark.parametrize(
    ("measures", "support", "options", "close"),
    [
        (GAUSSIANS, POINTS, {"weights": [1, 2, 3, 1, 1]}, 1e-13),
        (images(), GRID, {"reg": 0.02}, 1e-12),
        # rounding of one arithmetic or the other leads to other steps, to within the tolerance
        (images(count=200), GRID, {"reg": 0.05, "precision": "float32"}, 1e-6),
        (GAUSSIANS, POINTS, {"reg": 0.3, "debias": True}, 1e-5),
        (GAUSSIANS, POINTS[::2], {"reg": 0.02}, 1e-9),
        (GAUSSIANS, POINTS, {"method": "rounds"}, 1e-12),
        (images(), GRID, {"reg": 0.02, "method": "rounds"}, 1e-12),
        (GAUSSIANS, POINTS, {"method": "rounds", "debias": True}, 1e-10),
        (GAUSSIANS, bm.FreeSupport(8), {"max_iter": 50}, 1e-12),
        (GAUSSIANS, bm.FreeSupport(8, weights="learned"), {"max_iter": 50}, 1e-12),
    ],
    ids=[
        *("gaussians", "images", "float32", "debiased", "small reg", "rounds", "rounds without matrices"),
        *("debiased rounds", "free support", "learned weights"),
    ],
)
@pytest.mark.filterwarnings("ignore::barymesh.errors.AccuracyWarning")
def test_it_is_the_barycenter_of_one_machine(measures, support, options, close, cluster):
    truth, found = here(measures, support, **options), run(measures, support, **options)
    assert found.status is truth.status
    np.testing.assert_allclose(found.weights, truth.weights, rtol=0, atol=close)
    np.testing.assert_allclose(found.node_weights, truth.node_weights, rtol=0, atol=2 * close + 2e-6)
    np.testing.assert_allclose(found.support.points, truth.support.points, rtol=0, atol=1e-9)
    assert found.value == pytest.approx(truth.value, abs=1e-6)
    assert found.gap == pytest.approx(truth.gap, rel=0.5, abs=1e-6)


def test_one_shard_is_the_same_to_the_last_bit_and_several_repeat(cluster):
    same(run(images(), GRID, reg=0.02, workers=1), here(images(), GRID, reg=0.02))
    same(run(images(), GRID, reg=0.02), run(images(), GRID, reg=0.02))


def test_a_cluster_by_its_address(cluster, tmp_path):
    """From a process that is not connected to it yet, and is not afterwards."""
    code = """
        import sys
        import numpy as np
        import ray
        from tests.engines.test_ray_shards import run
        found = run(address=sys.argv[1])
        np.save(sys.argv[2], found.weights)
        print(found.status.name, ray.is_initialized())
        run(address="127.0.0.1:1")
    """
    # no token in the home folder, since the cluster has none
    started = python(code, cluster.address, tmp_path / "weights.npy", HOME=str(tmp_path))
    said, errors = started.communicate()
    assert said.split() == ["CONVERGED", "False"], errors
    np.testing.assert_allclose(np.load(tmp_path / "weights.npy"), here().weights, rtol=0, atol=1e-13)
    assert "NetworkError: There is no Ray cluster at 127.0.0.1:1" in errors
    with pytest.raises(OptionError, match="connected to a Ray cluster already"):
        run(address=cluster.address)


# ---- faults


class Crash:
    """A callback that does harm once, after some iterations."""

    def __init__(self, harm, at=8):
        self.harm, self.at, self.steps = harm, at, []

    def __call__(self, record):
        self.steps.append(record.step)
        if len(self.steps) == self.at:
            self.harm()


def shards():
    """Of this cluster: grandchildren of this process."""
    running = processes()
    children = {process for process, parent, _, _ in running if parent == os.getpid()}
    return {process for process, parent, _, name in running if parent in children and "RemoteHost" in name}


def kill_one():
    os.kill(min(shards()), signal.SIGKILL)


def lose_machine(cluster, wanted):
    """With the shards on it, which notice that a moment later; another if this one has none."""
    before = shards()
    above = {parent for process, parent, _, _ in processes() if process in before}
    machines = [one for one in cluster.list_all_nodes() if one.all_processes["raylet"][0].process.pid in above]
    cluster.remove_node(wanted if wanted in machines else machines[0], allow_graceful=False)
    end = time.monotonic() + PATIENCE
    while before <= {process for process, *_ in processes()}:
        assert time.monotonic() < end, "no shard has ended with its machine"
        time.sleep(0.05)


def test_a_lost_shard_continues_where_it_was(cluster, tmp_path):
    """As if nothing had happened: from a snapshot of this run, and from the beginning where there is none."""
    measures, options = images(), {"reg": 0.02, "tol": 1e-9}
    truth = run(measures, GRID, **options)

    def kill_and_remove():
        kill_one()
        for file in tmp_path.rglob("shard-*.npz"):
            file.unlink()

    for harm in (kill_one, kill_and_remove):
        crash = Crash(harm)
        same(run(measures, GRID, callback=crash, folder=tmp_path, **options), truth)
        # none is skipped or counted twice
        assert crash.steps == sorted(set(crash.steps))
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("workers", "known"), [(4, True), (3, False)])
def test_a_lost_machine_is_replaced_by_another(workers, known, cluster, monkeypatch):
    """There are as many shards as machines with cores, so that two share one afterwards. Its disk is lost too, since
    temporary files are not shared by real machines. Cores that Ray does not yet ``know`` to be lost, or that are not on
    one machine, are not waited for."""
    measures, options = images(), {"reg": 0.02, "tol": 1e-9, "workers": workers}
    if not known:
        monkeypatch.setattr(ray, "available_resources", lambda: {"CPU": 2.0})
        monkeypatch.setattr(ray_shards, "ROOM", 1.0)
    third = cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()
    try:
        truth = run(measures, GRID, **options)
        crash = Crash(partial(lose_machine, cluster, third))
        same(run(measures, GRID, callback=crash, **options), truth)
        assert len(crash.steps) > crash.at
    finally:
        # two are left, whichever was lost
        if len(cluster.list_all_nodes()) > MACHINES:
            cluster.remove_node(third)


def test_a_shard_that_is_lost_while_it_keeps_its_potentials(cluster, tmp_path, monkeypatch):
    submitted = ray_shards.RemoteShard.submit

    def submit(shard, method, *arguments):
        wait = submitted(shard, method, *arguments)

        def then_lost():
            found = wait()
            # the last call before they are kept
            if method == "total" and any(name == "bounds" for name, _ in shard.log):
                ray.kill(shard.actor)
            return found

        return then_lost

    truth = run(images(), GRID, reg=0.02)
    monkeypatch.setattr(ray_shards.RemoteShard, "submit", submit)
    same(run(images(), GRID, reg=0.02, checkpoint=tmp_path), truth)
    kept = np.concatenate([np.load(tmp_path / f"potentials-{first}.npy") for first in (0, 15)])
    np.testing.assert_array_equal(kept, truth.duals)


def test_a_call_that_is_under_way_leaves_no_snapshot_behind(tmp_path):
    problem = Problem.create(GAUSSIANS, POINTS, reg=0.1)
    host = ShardHost(0, problem, 1, tmp_path, "run")
    host.load()
    host.begin(ShardPlace(0, len(GAUSSIANS), problem.weights))
    zeros = np.zeros(POINTS.size)
    step = [("begin_history", (1, False)), ("evaluate", ()), ("move", (zeros, np.zeros(0), 1.0, 0))]
    host.taken = -np.inf
    host.call(1, step)
    assert list(tmp_path.rglob("shard-0.npz"))
    host.leave()
    host.taken = -np.inf
    host.call(4, step)
    assert not list(tmp_path.iterdir())


def test_ctrl_c_and_a_checkpoint(cluster, tmp_path):
    measures, options = images(), {"reg": 0.02, "tol": 1e-9, "checkpoint": tmp_path}
    whole = run(measures, GRID, **options)
    for file in tmp_path.iterdir():
        file.unlink()
    crash = Crash(partial(os.kill, os.getpid(), signal.SIGINT), at=whole.iterations // 2)
    first = run(measures, GRID, callback=crash, **options)
    assert first.status is bm.Status.INTERRUPTED
    assert 0 < first.gap < 1
    # by another number of shards
    then = run(measures, GRID, resume=True, **{**options, "workers": 3})
    assert then.success
    assert then.iterations < whole.iterations
    np.testing.assert_allclose(then.weights, whole.weights, rtol=0, atol=1e-8)
    with pytest.raises(FileError, match="measure 30"):
        run(images(count=40), GRID, resume=True, **options)


def test_data_that_change_continue_from_the_last_potentials(cluster):
    last, measures = here(tol=1e-8), [bm.Gaussian(one.mean + 0.05, 0.4) for one in GAUSSIANS]
    found, anew = run(measures, tol=1e-8, start=last), here(measures, tol=1e-8)
    np.testing.assert_allclose(found.weights, anew.weights, rtol=0, atol=1e-8)
    assert found.iterations < anew.iterations


def test_a_shard_that_is_lost_again_and_again_ends_the_run(cluster, monkeypatch):
    monkeypatch.setattr(ray_shards, "MOST_STARTS", 2)
    with pytest.raises(NetworkError, match="was lost 2 times"):
        run(callback=lambda record: kill_one(), tol=0)


# ---- data that stay where they are


def some_images(first, last):
    return images()[first:last]


def fail(number):
    raise KeyError(f"no patients for {number}")


def test_many_measures_are_loaded_by_the_shards(cluster, tmp_path):
    truth = here(images(), GRID, reg=0.02)
    shards = [bm.LazyMeasures(some_images, 0, 10), bm.LazyMeasures(some_images, 10, 30)]
    found = run(shards, GRID, reg=0.02)
    np.testing.assert_allclose(found.weights, truth.weights, rtol=0, atol=1e-12)
    assert len(found.problem.measures) == 30
    weights = np.arange(1.0, 31.0)
    truth = here(images(), GRID, reg=0.02, weights=weights)
    shards = [bm.LazyMeasures(some_images, a, b, weights=weights[a:b]) for a, b in [(0, 10), (10, 30)]]
    np.testing.assert_allclose(run(shards, GRID, reg=0.02).weights, truth.weights, rtol=0, atol=1e-12)


def test_measures_at_a_machine(cluster, monkeypatch):
    """It has cores for all shards that must be there, whatever the others take; if it is lost, so are the measures."""
    monkeypatch.setattr(ray_shards, "ROOM", 1.0)
    far = "127.0.0.2"
    third = cluster.add_node(num_cpus=2, node_ip_address=far)
    cluster.wait_for_nodes()
    parts = [(0, 10, None), (10, 20, far), (20, 30, far)]
    measures = [bm.LazyMeasures(some_images, first, last, at=at) for first, last, at in parts]
    try:
        found = run(measures, GRID, reg=0.02, workers=3)
        np.testing.assert_allclose(found.weights, here(images(), GRID, reg=0.02).weights, rtol=0, atol=1e-12)
        crash = Crash(partial(lose_machine, cluster, third))
        with pytest.raises(NetworkError, match=r"lost with its machine, 127\.0\.0\.2"):
            run(measures, GRID, reg=0.02, workers=3, tol=1e-9, callback=crash)
    finally:
        if third in cluster.list_all_nodes():
            cluster.remove_node(third)


def test_tables_with_a_column_that_names_the_measure(cluster, tmp_path):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    clouds = {f"site {k}": rng.normal(k, 1, 50) for k in range(4)}
    paths = []
    for part in (["site 0", "site 1"], ["site 2", "site 3"]):
        paths.append(tmp_path / f"{part[0]}.parquet")
        rows = [(name, value) for name in part for value in clouds[name]]
        pandas.DataFrame(rows, columns=["site", "x"]).to_parquet(paths[-1])
    support = np.linspace(-4, 7, 60)
    found = run([bm.LazyMeasures(path, by="site") for path in paths], support)
    truth = here([bm.Empirical(cloud) for cloud in clouds.values()], support)
    np.testing.assert_allclose(found.weights, truth.weights, rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_dataset_of_ray(cluster):
    dataset = ray.data.from_numpy(images()[:6].reshape(6, -1))
    truth = here(images()[:6].reshape(6, -1), GRID, reg=0.02)
    np.testing.assert_allclose(run(dataset, GRID, reg=0.02).weights, truth.weights, rtol=0, atol=1e-12)
    named = dataset.add_column("number", lambda batch: np.arange(len(batch)))
    with pytest.raises(MeasureError, match="column="):
        run(named, GRID, reg=0.02)
    found = run(bm.LazyMeasures(named, column="data", weights=np.ones(6)), GRID, reg=0.02)
    np.testing.assert_allclose(found.weights, truth.weights, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"measures": [*GAUSSIANS[:4], bm.Lazy(fail, 4)]}, MeasureError, r"Measure 4: Lazy\(fail, 4\).*no patients"),
        ({"measures": [bm.Lazy("a.csv", at="10.9.9.9")]}, OptionError, "no machine"),
        ({"workers": 9, "measures": GAUSSIANS * 2}, OptionError, "9 workers need as many cores"),
        ({"resume": True}, OptionError, "checkpoint"),
        ({"duration": 3}, OptionError, "network"),
        ({"engine": "processes", "workers": None}, OptionError, "network"),
        ({"measures": bm.LazyMeasures(some_images, 0, 9, weights=[1]), "support": GRID}, MeasureError, "one weight"),
    ],
)
def test_mistakes_are_named(options, error, words, cluster):
    with pytest.raises(error, match=words):
        run(**options)


@pytest.mark.parametrize("options", [{}, {"network": "complete"}])
def test_many_measures_at_a_time_are_for_a_cluster(options):
    with pytest.raises(MeasureError, match="engine='ray' without a network"):
        here(bm.LazyMeasures(some_images, 0, 9), GRID, **options)
