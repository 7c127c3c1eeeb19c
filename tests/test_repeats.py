"""A run repeats to the last bit, in another process, with kernels just compiled or found in the cache."""

from __future__ import annotations

import os
import subprocess
import sys

RUN = """
import hashlib, warnings
import numpy as np
import barymesh as bm
warnings.simplefilter("ignore")
measures = [bm.Gaussian(k / 3, 0.3) for k in range(6)]
for options in ({"method": "sinkhorn", "tol": 0}, {"method": "a2dwb", "batch": 5}):
    result = bm.barycenter(measures, np.linspace(-4, 4, 21), reg=0.3, network="cycle", duration=12, **options)
    for array in (result.duals, result.node_weights, result.weights, *result.history.columns.values()):
        print(hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest())
"""


def test_a_run_repeats_whether_its_kernels_were_cached_or_not(tmp_path):
    def output(threads):
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_NUM_THREADS": threads}
        done = subprocess.run(
            [sys.executable, "-c", RUN], capture_output=True, text=True, check=True, timeout=600, env=environment
        )
        return done.stdout.split()

    compiled, cached, on_one_core = output("2"), output("2"), output("1")
    assert compiled == cached == on_one_core
    assert len(compiled) > 10
