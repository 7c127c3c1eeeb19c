"""A run repeats to the last bit, in another process, with kernels just compiled or found in the cache."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

RUN = """
import hashlib, warnings
import numpy as np
import barymesh as bm
warnings.simplefilter("ignore")
measures = [bm.Gaussian(k / 3, 0.3) for k in range(6)]
result = bm.barycenter(
    measures, support=np.linspace(-4, 4, 21), reg=0.3, network="cycle", method={method!r}, duration=12, {more}
)
for array in (result.duals, result.node_weights, result.weights, *result.history.columns.values()):
    print(hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest())
"""


@pytest.mark.parametrize(("method", "more"), [("sinkhorn", "tol=0"), ("a2dwb", "batch=5")])
def test_a_run_repeats_whether_its_kernels_were_cached_or_not(tmp_path, method, more):
    code = RUN.format(method=method, more=more)

    def output(threads):
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_NUM_THREADS": threads}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600, env=environment
        )
        return done.stdout.split()

    compiled, cached, on_one_core = output("2"), output("2"), output("1")
    assert compiled == cached == on_one_core
    assert len(compiled) > 5
