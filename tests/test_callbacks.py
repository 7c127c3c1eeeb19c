"""What TensorBoard and MLflow receive is what the history holds."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import barymesh as bm
from barymesh.callbacks import MLflow, TensorBoard
from barymesh.errors import MissingPackageError, OptionError

MEASURES = [bm.Gaussian(mean, 0.4) for mean in (-1.0, 0.0, 1.5)]
SUPPORT = np.linspace(-3, 3, 30)


def scalars(folder):
    """What an event file holds: name to list of (step, value)."""
    from tensorboardX.proto.event_pb2 import Event

    (file,) = folder.iterdir()
    data, found = file.read_bytes(), {}
    while data:
        # a record: its length in 8 bytes, a checksum in 4, the event, a checksum in 4
        length = int.from_bytes(data[:8], "little")
        event = Event.FromString(data[12 : 12 + length])
        for value in event.summary.value:
            found.setdefault(value.tag, []).append((event.step, value.simple_value))
        data = data[16 + length :]
    return found


def test_tensorboard_gets_every_iteration_of_the_solver(tmp_path):
    with TensorBoard(tmp_path / "runs") as board:
        result = bm.barycenter(MEASURES, SUPPORT, reg=0.1, callback=board)
    found = scalars(tmp_path / "runs")
    steps, values = zip(*found["barymesh/consensus"], strict=True)
    np.testing.assert_array_equal(steps, result.history["iterations"])
    np.testing.assert_allclose(values, result.history["consensus"], rtol=1e-6)
    duals = [value for _, value in found["barymesh/dual_objective"]]
    np.testing.assert_allclose(duals, result.history["dual_objective"], rtol=1e-5)


@pytest.mark.parametrize("engine", [{"engine": "simulation", "duration": 5}, {"engine": "processes", "workers": 1}])
def test_tensorboard_gets_the_records_of_a_network(tmp_path, engine):
    with TensorBoard(tmp_path / "runs", prefix="") as board:
        options = {"duration": 2.0, "record_every": 0.5, **engine}
        result = bm.barycenter(MEASURES, SUPPORT, reg=0.1, network="path", callback=board, **options)
    found = scalars(tmp_path / "runs")
    # without a reference there is no distance to it
    assert set(found) == set(result.history.columns)
    for name, logged in found.items():
        steps, values = zip(*logged, strict=True)
        np.testing.assert_array_equal(steps, result.history["activations"])
        np.testing.assert_allclose(values, result.history[name], rtol=1e-6)


def test_mlflow_gets_every_third(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    import mlflow

    mlflow.set_tracking_uri((tmp_path / "tracked").as_uri())
    with mlflow.start_run() as run:
        result = bm.barycenter(MEASURES, SUPPORT, reg=0.1, callback=MLflow(every=3, prefix="mine/"))
    logged = mlflow.MlflowClient().get_metric_history(run.info.run_id, "mine/consensus")
    assert [one.step for one in logged] == list(range(1, result.iterations + 1, 3))
    np.testing.assert_array_equal([one.value for one in logged], result.history["consensus"][::3])


@pytest.mark.parametrize(
    ("module", "make", "extra"),
    [("tensorboardX", lambda: TensorBoard("x"), "tensorboard"), ("mlflow", MLflow, "mlflow")],
)
def test_what_is_missing_is_said_before_the_run(monkeypatch, module, make, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingPackageError, match=rf"barymesh\[{extra}\]"):
        make()


def test_every_must_be_a_number():
    with pytest.raises(OptionError, match="every is 0"):
        MLflow(every=0)
