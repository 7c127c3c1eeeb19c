"""
Ridge regression by workers with stale information
==================================================

Eight workers fit one ridge regression. Each owns five of the forty coefficients, and updates them from the gradient of
its own block; of the others' coefficients it knows values that are some steps old. How much does stale information
cost, and does the accelerated method still find the right answer? The answer is known: it is the solution of a linear
system.
"""

import matplotlib.pyplot as plt
import numpy as np

from barymesh.block_descent import asbcds, pasbcds

WORKERS, OWN, ROWS, PENALTY, STEPS = 8, 5, 200, 0.02, 6000
rng = np.random.default_rng(0)
# correlated columns make the problem hard
columns = rng.normal(size=(ROWS, WORKERS * OWN)) @ np.linalg.cholesky(0.7 + 0.3 * np.eye(WORKERS * OWN)).T
response = columns @ rng.normal(size=WORKERS * OWN) + rng.normal(size=ROWS)
matrix = columns.T @ columns / ROWS + PENALTY * np.eye(WORKERS * OWN)
right = columns.T @ response / ROWS
exact = np.linalg.solve(matrix, right).reshape(WORKERS, OWN)
rows, own_right = matrix.reshape(WORKERS, OWN, -1), right.reshape(WORKERS, OWN)


def gradient(coefficients: np.ndarray, worker: int) -> np.ndarray:
    """The gradient of the ridge objective with respect to the coefficients of one worker."""
    return rows[worker] @ coefficients.ravel() - own_right[worker]


def excess(coefficients: np.ndarray) -> float:
    """How far the objective is above its minimum."""
    off = (coefficients - exact).ravel()
    return 0.5 * off @ matrix @ off


# %%
# PASBCDS with staleness of up to 0, 8 and 24 steps: with eight workers, up to three rounds. Blocks that are very
# old ask for a smaller step.

smoothness = np.linalg.eigvalsh(matrix)[-1]
start = np.zeros((WORKERS, OWN))
options = {"iterations": STEPS, "seed": 1, "record_every": 20}
runs = {
    staleness: pasbcds(gradient, start, step=step / smoothness, staleness=staleness, **options)
    for staleness, step in ((0, 1.0), (8, 0.5), (24, 0.1))
}
errors = {staleness: [excess(point) for point in run.trajectory] for staleness, run in runs.items()}

# %%
# The checks: every run comes close to the solution of the linear system, and ASBCDS, which changes all blocks in every
# step, computes the same points as PASBCDS, which changes one.

for staleness, error in errors.items():
    print(f"Blocks up to {staleness:2d} steps old: {error[-1] / excess(start):.1e} of the first excess is left")
    assert error[-1] < 1e-3 * excess(start)
same = asbcds(gradient, start, step=0.5 / smoothness, staleness=8, **options)
assert np.abs(same.trajectory - runs[8].trajectory).max() < 1e-9

# %%
# Against plain block descent, without acceleration and with nothing stale: it has come less far.

plain, plain_errors = start.copy(), []
for k, worker in enumerate(np.random.default_rng(1).integers(WORKERS, size=STEPS), start=1):
    plain[worker] -= gradient(plain, worker) / smoothness
    if k % options["record_every"] == 0:
        plain_errors.append(excess(plain))
assert errors[0][-1] < 0.1 * plain_errors[-1]

# %%
# The price of late information is the smaller step. What the method converges to does not change.

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
steps = runs[0].steps
axes.semilogy(steps, plain_errors, color="black", linestyle=":", label="plain descent, nothing stale")
for (staleness, error), colour in zip(errors.items(), ("#0072B2", "#009E73", "#D55E00"), strict=True):
    late = f"blocks up to {staleness} steps old" if staleness else "nothing stale"
    axes.semilogy(steps, error, color=colour, label=f"PASBCDS, {late}")
axes.set(xlabel="steps, each of one worker", ylabel="objective minus minimum")
axes.legend(frameon=False)
plt.show()
