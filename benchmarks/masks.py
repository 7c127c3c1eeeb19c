"""Masks: what it costs that nobody can read anything but sums.

Normal distributions on a line, on a random network with the paper's clocks and delays, by rounds until all nodes have
stopped with a tolerance of 1e-6, with masks and without. Time is virtual: what a network would take, whose messages are
late and whose nodes compute in no time. With masks nodes begin with a larger reg, which takes more rounds, but fewer
where reg is small. There is the processor time of the whole simulation too, which has the masks
of all nodes in it, and that of one node for one report. The bytes are those of all messages.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from barymesh.decentralized.masks.round import Round
from barymesh.decentralized.masks.streams import Masks
from barymesh.engines.simulate import simulate
from barymesh.exact.reference import exact_reference
from barymesh.methods.chosen_rounds import chosen_rounds
from barymesh.network import as_network
from barymesh.options import RunOptions
from benchmarks.parts import Part, Row, Table
from benchmarks.problems import gaussians
from benchmarks.tables import in_line
from benchmarks.timing import best_times

TOL, DURATION = 1e-6, 1000.0
# the most that masks may cost: times the virtual time, and the bytes
MOST_TIME, MOST_BYTES = 2.0, 1.5


@dataclass(frozen=True)
class Case:
    """So many nodes, on so many points, with this reg."""

    nodes: int
    points: int
    order: int | None = None
    reg: float = 0.1


CASES = (Case(20, 100), Case(20, 100, order=40, reg=0.01), Case(20, 10_000, order=40))
QUICK = (Case(8, 40, order=20),)


def run(quick: bool, say: Callable[[str], None]) -> Part:
    """Both ways on all cases, and the work of one node."""
    chosen = QUICK if quick else CASES
    rows = [row for case in chosen for row in compared(case, say)]
    return Part(
        title="Masks",
        text=(__doc__ or "").partition("\n\n")[2].strip(),
        tables=[
            Table(
                "Rounds to 1e-6 with masks and without",
                f"*times*: with masks over without. The aim: at most {MOST_TIME:g} times the virtual time and "
                f"{MOST_BYTES:g} times the bytes. *tv*: between the two barycenters, which "
                "both end within the tolerance; at a tolerance of 1e-11 it is at most 1e-9 (`tests/decentralized`).",
                rows,
            ),
            Table(
                "The masks of one report",
                "Processor time of one node, by its number of partners, for the numbers of a report.",
                [
                    report(partners, points, say)
                    for points, nodes in dict.fromkeys((case.points, case.nodes) for case in chosen)
                    for partners in (nodes - 1, 90)
                ],
            ),
        ],
    )


def compared(case: Case, say: Callable[[str], None]) -> list[Row]:
    """A case without masks, with them, and the ratios."""
    problem = replace(gaussians(case.nodes, points=case.points, order=case.order), reg=case.reg)
    network = as_network("erdos_renyi", case.nodes)
    rows: list[Row] = []
    found = []
    for masks in (False, True):
        options = RunOptions(
            method="rounds", duration=DURATION, reference=exact_reference(problem), tol=TOL, masks=masks,
            record_every=1.0,
        )  # fmt: skip
        began = time.process_time()
        result = simulate(problem, network, options)
        assert result.history is not None
        spent = time.process_time() - began
        found.append(result.weights)
        rows.append(
            {
                "nodes": case.nodes, "points": case.points, "reg": case.reg, "masks": "yes" if masks else "no",
                "virtual s": float(result.history["time"][-1]), "MB": result.bytes / 1e6,
                "messages": result.messages, "processor s": spent, "converged": result.success,
            }
        )  # fmt: skip
        say(in_line(rows[-1]))
    ratios = {name: rows[1][name] / rows[0][name] for name in ("virtual s", "MB", "messages", "processor s")}
    distance = 0.5 * float(np.abs(found[0] - found[1]).sum())
    rows.append(
        {"nodes": case.nodes, "points": case.points, "reg": case.reg, "masks": "times", **ratios, "tv": distance}
    )
    say(in_line(rows[-1]))
    return rows


def report(partners: int, points: int, say: Callable[[str], None]) -> Row:
    """The work of one node for the masks of one report."""
    numbers = numbers_of(points, partners + 1)
    masks = Masks.of_one_owner(partners + 1, 0, "rounds")
    roll = np.array([masks.number(node, 1.0, 0) for node in range(partners + 1)])
    target = np.zeros(points)
    stamps = iter(range(1, 10**9))

    def once() -> object:
        return masks.mask(0, Round(1.0, -1.0, float(next(stamps)), target, roll), (1, 1, 1, numbers))

    row = {"partners": partners, "numbers": numbers, "milliseconds": 1e3 * best_times({"": once}, turns=3)[""]}
    say(in_line(row))
    return row


def numbers_of(points: int, nodes: int) -> int:
    """How many numbers a contribution has."""
    problem = gaussians(nodes, points=points, order=2)
    return chosen_rounds(problem, nodes, masked=True).up
