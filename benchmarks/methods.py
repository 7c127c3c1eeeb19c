"""All methods on networks, each at its best setting: virtual seconds, messages and bytes to a distance of the truth.

The Gaussians of the paper (see `network`), its delays and its schedule, exact oracle. A setting is the best by the
total variation that it ends with, of all that are listed below. Time is virtual, so none of this depends on the
machine.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from barymesh.decentralized.algorithm import Nodes
from barymesh.decentralized.baselines.gossip_sinkhorn import GossipSinkhorn
from barymesh.decentralized.build import choose_step
from barymesh.engines.recorder import Recorder
from barymesh.engines.simulation import SynchronousSimulation
from barymesh.errors import BarymeshError, DriftWarning
from barymesh.exact.reference import Reference, exact_reference
from barymesh.gradients.logarithmic import ExactLogGradients
from barymesh.history import History
from barymesh.method_names import WITHOUT_STEP
from barymesh.network import as_network
from barymesh.network.topology import Network
from barymesh.problem import Problem
from barymesh.scenario.delays import Categorical
from barymesh.scenario.faults import fault_table
from benchmarks.labels import label_ends
from benchmarks.network import RECORD_EVERY, reached, run_method
from benchmarks.parts import Part, Row, Table
from benchmarks.problems import gaussians
from benchmarks.rivals.server_sinkhorn import server_sinkhorn
from benchmarks.tables import in_line

Say = Callable[[str], None]
# by network and method
Histories = dict[tuple[str, str], History]

METHODS: tuple[str, ...] = ("sinkhorn", "rounds", "a2dwb_conserving", "a2dwb", "a2dwb_naive", "dcwb", "gossip_sinkhorn")
SERVER = "server sinkhorn"
# multiples of reg/lambda_max
STEPS = tuple(2.0**power for power in range(-4, 13))
# a round of all nodes lasts a second, so no longer phase ends within the time
PHASES = (2, 4, 6, 8, 10, 12, 14, 16, 20, 28, 40, 56, 80, 100, 140, 200)
NETWORKS, SIZE, SECONDS = ("erdos_renyi", "star", "cycle"), 100, 200.0
# as many nodes as the paper has: the default method, and the paper's
LARGE, LARGE_METHODS = 500, ("sinkhorn", "a2dwb")
STYLES = {
    "sinkhorn": ("#0072B2", 2.5), "rounds": ("#000000", 2.5), "a2dwb_conserving": ("#D55E00", 1.3),
    "a2dwb": ("#009E73", 1.3), "a2dwb_naive": ("#CC79A7", 1.3), "dcwb": ("#E69F00", 1.3),
    "gossip_sinkhorn": ("#56B4E9", 1.3), SERVER: ("#777777", 1.3),
}  # fmt: skip


@dataclass(frozen=True)
class Search:
    """For how long a method runs, and the settings that are tried."""

    seconds: float
    steps: Sequence[float]
    phases: Sequence[int]


def run(quick: bool, say: Say) -> Part:
    """All methods on all networks, and two of them on a large one."""
    search = Search(20.0, (1.0, 16.0), (4, 14)) if quick else Search(SECONDS, STEPS, PHASES)
    size, networks = (12, NETWORKS[:1]) if quick else (SIZE, NETWORKS)
    cases = [(size, name, METHODS) for name in networks]
    cases += [] if quick else [(LARGE, NETWORKS[0], LARGE_METHODS)]
    histories: Histories = {}
    rows: list[Row] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DriftWarning)
        for count, name, methods in cases:
            problem, network = gaussians(count), as_network(name, count)
            reference = exact_reference(problem)
            for method in methods:
                setting, history = best(list(runs(method, problem, network, reference, search)))
                rows.append({"nodes": count, "network": name, "method": method, "setting": setting, **reached(history)})
                say(in_line(rows[-1]))
                if count == size:
                    histories[name, method] = history
    server = with_server(gaussians(size), search.seconds)
    histories |= {(name, SERVER): server for name in networks}
    rows.append({"nodes": size, "network": "a server", "method": SERVER, **reached(server)})
    return Part(
        title="All methods on networks",
        text=(__doc__ or "").partition("\n\n")[2].strip(),
        tables=[Table("Rivals", text(search), rows)],
        figures={"methods": lambda axes: draw(axes.figure, histories)},
    )


def text(search: Search) -> str:
    """What the table shows, and what was tried for it."""
    longest = "" if search.phases is not PHASES else "; no longer phase ends in this time"
    steps, phases = (", ".join(f"{one:g}" for one in some) for some in (search.steps, search.phases))
    return (
        "Virtual seconds, messages and megabytes until the mean total variation between the nodes' estimates and the "
        f"true barycenter is down to a level, and where it is after {search.seconds:g} s. Empty: not reached, or does "
        f"not apply. *setting*: for methods with a step the best of {steps} times reg/lambda_max; for "
        f"*gossip_sinkhorn* the best of {phases} rounds of averaging a phase; the others have none. All runs have "
        "one seed, and a setting is chosen by the error of the very run that is shown, which favours the methods that "
        f"have settings. An asterisk: the best is the first or the last that was tried{longest}. *server sinkhorn* "
        "(Kroshnin et al., arXiv 1901.08686): all nodes send to a server, which waits for the slowest message; no "
        "acceleration. *gossip_sinkhorn* (arXiv 2509.14521) without its event triggers, its quantisation and its "
        "asynchronous operation: synchronous rounds of averaging with full messages, none of which is lost. Methods "
        "without regularisation, or that find another measure, are in `unregularised`."
    )


def runs(
    method: str, problem: Problem, network: Network, reference: Reference, search: Search
) -> Iterable[tuple[str, History | None]]:
    """What a method does with each of its settings; None if it diverged."""
    if method == "gossip_sinkhorn":
        for rounds in search.phases:
            yield f"{rounds} rounds", gossip(problem, network, search.seconds, reference, rounds)
        return
    unit = choose_step(None, problem, network, 0)
    for factor in (None,) if method in WITHOUT_STEP else search.steps:
        step = None if factor is None else factor * unit
        try:
            history: History | None = run_method(problem, network, method, search.seconds, reference, step=step)
        except BarymeshError:
            history = None
        yield "" if factor is None else f"step {factor:g}", history


def best(tried: Sequence[tuple[str, History | None]]) -> tuple[str, History]:
    """The setting with the least total variation in the end, with an asterisk if none was tried beyond it."""
    ends = {place: history["tv"][-1] for place, (_, history) in enumerate(tried) if history is not None}
    place = min(ends, key=lambda one: ends[one])
    setting, history = tried[place]
    assert history is not None
    return setting + ("*" if setting and place in (0, len(tried) - 1) else ""), history


def gossip(problem: Problem, network: Network, seconds: float, reference: Reference, rounds: int) -> History:
    """Gossip Sinkhorn with so many rounds a phase, which a user cannot choose."""
    recorder = Recorder(problem, network, reference=reference, virtual=True)
    algorithm = GossipSinkhorn(Nodes.all_of(network, problem.weights), ExactLogGradients(problem), rounds)
    SynchronousSimulation(
        algorithm, recorder, delays=Categorical(), faults=fault_table((), network), seed=problem.seed,
        record_every=RECORD_EVERY, until=seconds,
    ).run(seconds)  # fmt: skip
    return recorder.history


def with_server(problem: Problem, seconds: float) -> History:
    """The plain iteration with a server, as the history of a method."""
    curve, truth = server_sinkhorn(problem.oracle, seconds), exact_reference(problem).weights
    distances = np.abs(np.array(curve.estimates) - truth).sum(axis=1) / 2
    return History({"time": np.array(curve.times), "bytes": np.array(curve.sent), "tv": distances})


def draw(figure: Any, histories: Histories) -> None:
    """A row for each network: total variation over bytes and over time, and over time on a linear scale, where the
    curves have their names."""
    names = list(dict.fromkeys(name for name, _ in histories))
    methods = [method for method in STYLES if (names[0], method) in histories]
    end = max(history["time"][-1] for history in histories.values())
    figure.clear()
    figure.set_size_inches(10.0, 2.6 * len(names) + 0.4)
    panels = figure.subplots(len(names), 3, squeeze=False)
    kinds = (("bytes", "log"), ("time", "log"), ("time", "linear"))
    for row, name in zip(panels, names, strict=True):
        for axes, (column, scale) in zip(row, kinds, strict=True):
            for method in methods:
                history, (colour, width) = histories[name, method], STYLES[method]
                x, y = history[column] / (1e6 if column == "bytes" else 1.0), history["tv"]
                if column == "time":
                    # nodes that have stopped keep what they have
                    x, y = np.append(x, end), np.append(y, y[-1])
                axes.plot(x[x > 0], y[x > 0], color=colour, lw=width, ls="--" if method == SERVER else "-")
            axes.set(xscale=scale, yscale=scale, ylim=(1e-9, 1.5) if scale == "log" else (0.0, 1.0))
            axes.spines[["top", "right"]].set_visible(False)
        row[0].set_ylabel(f"{name.replace('_', '-').title()}\ntotal variation")
    for axes, label in zip(panels[-1], ("MB sent by all nodes", "virtual seconds", "virtual seconds"), strict=True):
        axes.set_xlabel(label)
    figure.get_layout_engine().execute(figure)
    for axes in panels[:, -1]:
        label_ends(axes, methods)
