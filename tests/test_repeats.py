"""A run repeats to the last bit, in another process, on any number of threads and with any instruction set."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from barymesh.core import kernels

RUN = """
import hashlib, warnings
import numpy as np
import barymesh as bm
warnings.simplefilter("ignore")
measures = [bm.Gaussian(k / 3, 0.3) for k in range(6)]
images = [bm.Image(np.random.default_rng(k).random((9, 7)) ** 4) for k in range(5)]
samples = [np.random.default_rng(k).normal(size=(30, 2)) for k in range(4)]
for measures_, reg in ((images, 0.01), (images, 3e-4), (samples, 0.1)):
    result = bm.barycenter(measures_, reg=reg, max_iter=40)
    for array in (result.duals, result.weights, np.array([result.value, result.gap])):
        print(hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest(), *np.ravel(array)[::50])
for options in ({"method": "sinkhorn", "tol": 0}, {"method": "a2dwb", "batch": 5}):
    result = bm.barycenter(measures, np.linspace(-4, 4, 21), reg=0.3, network="cycle", duration=12, **options)
    for array in (result.duals, result.node_weights, result.weights, *result.history.columns.values()):
        print(hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest(), *np.ravel(array)[::50])
"""


INSTRUCTION_SETS = ["baseline", "avx2", "avx512"]
AVAILABLE = INSTRUCTION_SETS[: INSTRUCTION_SETS.index(kernels.INSTRUCTION_SET) + 1]


def output(threads, instruction_set=""):
    """A line for each array: its hash, and some of its numbers."""
    environment = {**os.environ, "BARYMESH_NUM_THREADS": threads, "BARYMESH_INSTRUCTION_SET": instruction_set}
    done = subprocess.run(
        [sys.executable, "-c", RUN], capture_output=True, text=True, check=True, timeout=600, env=environment
    )
    return [line.split() for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def on_one_core():
    return output("1")


def test_a_run_repeats_in_another_process_and_on_any_number_of_threads(on_one_core):
    assert len(on_one_core) > 20
    assert output("1") == output("3") == on_one_core


@pytest.mark.skipif(len(AVAILABLE) < 3, reason="the processor has no two instruction sets that fuse products")
def test_instruction_sets_that_fuse_products_give_the_same_bits(on_one_core):
    assert output("1", "avx2") == output("1", "avx512") == on_one_core


def test_the_baseline_differs_by_rounding_only(on_one_core):
    """It has no fused multiply-add, so it rounds twice where the others round once. A processor without another
    instruction set works like this."""
    baseline = output("2", "baseline")
    assert [line[1:] for line in baseline if len(line) > 1]
    for found, expected in zip(baseline, on_one_core, strict=True):
        for one, other in zip(found[1:], expected[1:], strict=True):
            assert float(one) == pytest.approx(float(other), rel=1e-6, abs=1e-9)


def test_an_instruction_set_that_is_not_there_is_refused():
    environment = {**os.environ, "BARYMESH_INSTRUCTION_SET": "avx1024"}
    done = subprocess.run([sys.executable, "-c", "import barymesh"], capture_output=True, text=True, env=environment)
    assert done.returncode != 0
    assert 'BARYMESH_INSTRUCTION_SET is "avx1024"; this processor has: baseline' in done.stderr
