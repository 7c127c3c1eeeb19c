"""The pool of threads: the same numbers on any number of them, after a fork, and from several threads at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barymesh.core import kernels


@pytest.fixture(autouse=True)
def _threads_as_before():
    before = kernels.threads()
    yield
    kernels.set_threads(before)


def large(seed=0):
    """Arrays large enough to be worth several threads."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(60, 5000)), rng.random(60)


def mean(rows, weights):
    out = np.empty(rows.shape[1])
    kernels.weighted_mean(rows, weights, out)
    return out


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 400), st.integers(1, 300))
def test_results_do_not_depend_on_the_number_of_threads(counts, m, n):
    x = np.random.default_rng(m * n).normal(size=(m, n))
    results = []
    for count in (1, *counts):
        kernels.set_threads(count)
        log_p, error = x.copy(), np.empty(m)
        kernels.residual(log_p, x[0].copy(), np.exp(x[0]), error)
        results.append((log_p.tobytes(), error.tobytes()))
    assert len(set(results)) == 1


def test_several_threads_of_a_program_compute_at_once():
    kernels.set_threads(4)
    expected = [mean(*large(seed)) for seed in range(4)]
    wrong = []

    def work(seed):
        for _ in range(50):
            if not (mean(*large(seed)) == expected[seed]).all():
                wrong.append(seed)

    together = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for one in together:
        one.start()
    for one in together:
        one.join()
    assert wrong == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_it_computes_after_a_fork():
    """The child has none of the threads of its parent, and must not wait for them."""
    program = """
import os, numpy as np
from barymesh.core import kernels
kernels.set_threads(4)
rows, weights = np.random.default_rng(0).normal(size=(60, 5000)), np.full(60, 1 / 60)
def mean():
    out = np.empty(5000)
    kernels.weighted_mean(rows, weights, out)
    return out
before = mean()
for _ in range(5):
    child = os.fork()
    if child == 0:
        os._exit(0 if all((mean() == before).all() for _ in range(20)) else 1)
    assert os.waitpid(child, 0)[1] == 0
assert (mean() == before).all()
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=60)


def test_idle_threads_sleep():
    """Half a second without work costs next to no processor time."""
    program = """
import time, numpy as np
from barymesh.core import kernels
kernels.set_threads(4)
rows, weights, out = np.ones((60, 5000)), np.ones(60), np.empty(5000)
for _ in range(20):
    kernels.weighted_mean(rows, weights, out)
before = time.process_time()
time.sleep(0.5)
print(time.process_time() - before)
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    assert float(done.stdout) < 0.1


@pytest.mark.skipif(not hasattr(signal, "SIGINT") or os.name == "nt", reason="signals are those of POSIX")
def test_signals_reach_the_program_not_the_pool():
    program = """
import numpy as np
from barymesh.core import kernels
kernels.set_threads(4)
rows, weights, out = np.ones((60, 5000)), np.ones(60), np.empty(5000)
print("ready", flush=True)
try:
    while True:
        kernels.weighted_mean(rows, weights, out)
except KeyboardInterrupt:
    print("interrupted")
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout.readline() == "ready\n"
        time.sleep(0.1)
        running.send_signal(signal.SIGINT)
        assert running.communicate(timeout=30)[0] == "interrupted\n"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limits are those of Linux")
def test_it_computes_where_no_thread_can_be_started():
    """Stacks are as large as the first limit, and no memory beyond the second can be had."""
    program = """
import signal
import numpy as np
from barymesh.core import kernels
kernels.set_threads(4)
out = np.empty(5000)
kernels.weighted_mean(np.ones((60, 5000)), np.ones(60), out)
assert (out == 60).all()
assert not signal.pthread_sigmask(signal.SIG_BLOCK, [])
"""
    limited = f'ulimit -s {2**28}; ulimit -v {2**26}; exec "$0" -c "$1"'
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    subprocess.run(["/bin/sh", "-c", limited, sys.executable, program], check=True, timeout=60, env=environment)
