"""What a node of the spanning tree remembers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from barymesh.decentralized.algorithm import Floats
from barymesh.decentralized.masks.fixed_point import Words
from barymesh.state import S, State


@dataclass(frozen=True)
class TreeState(State, Generic[S]):
    """``target (k, down)``, the ``own`` state of the method; all others ``(k,)``.

    The tree: ``epoch``, ``root``, ``distance``, ``parent``; ``parent_beat``, the parent's last, and ``quiet``, for how
    many activations it has been that; ``age``: activations with this root; ``patience``; ``lag``: how many beats a
    child may be behind, ``late`` and ``late_stamps``: how many are later, and the sum of their stamps; ``allowance``:
    how many epochs it may still begin or follow; ``changed``: the stamp when the measure last changed. ``away``: the
    node does not take part. ``newcomer``: it does not count yet.

    About the target: ``stamp``, ``whole``, ``done``, ``residual``; ``settled``: there was a whole target at some time;
    ``agreed``: the node's own error, or in rounds its own part of the certificate, agrees that it is done.

    Of a root, from the last time round the loop: ``checkpoint``, its beat then; ``moved``, how far the target went
    since; ``loop``, the beats that it took; ``left`` and ``rate``, see ``_remaining``; ``best`` and ``stalled``, see
    ``_turn``.

    In ``rounds``: ``waited``, activations without a sign of life from children that are awaited; ``solved``, the stamp
    that the contribution refers to, in which ``solved_epoch``; ``begun``, the beat when that target came, and ``pace``,
    the fewest beats that a round has taken in this epoch; ``sent (k, Sent)``, what was last sent.

    With masks the target ends with the roll. ``number`` of the node in the roll of ``number_epoch``, drawn by
    ``number_process``; ``reported (k, 3)``, the epoch, root and stamp of its last masked contribution, ``report (k,
    up)``; ``answers``: to how many targets it may still contribute; ``heard (k, 2, degree)``: the last beat of each
    neighbour, and for how many activations it has been that; ``missed``: the id of a neighbour that is there and that
    the roll lacks, -1 if there is none. Of a root: ``void``, how often a sum could not be read.
    """

    own: S
    target: Floats
    epoch: Floats
    root: Floats
    distance: Floats
    parent: NDArray[np.int64]
    parent_beat: Floats
    quiet: NDArray[np.int64]
    age: NDArray[np.int64]
    patience: NDArray[np.int64]
    lag: Floats
    late: NDArray[np.int64]
    late_stamps: Floats
    changed: Floats
    away: Floats
    newcomer: Floats
    stamp: Floats
    whole: Floats
    done: Floats
    residual: Floats
    settled: Floats
    agreed: Floats
    checkpoint: Floats
    moved: Floats
    loop: Floats
    left: Floats
    rate: Floats
    best: Floats
    stalled: NDArray[np.int64]
    rounds: Floats
    waited: NDArray[np.int64]
    allowance: Floats
    solved: Floats
    solved_epoch: Floats
    begun: Floats
    pace: Floats
    sent: Floats
    number: Floats
    number_epoch: Floats
    number_process: Floats
    reported: Floats
    report: Words
    answers: Floats
    heard: Floats
    missed: NDArray[np.int64]
    void: NDArray[np.int64]
