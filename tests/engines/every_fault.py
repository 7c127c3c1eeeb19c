"""Every kind of fault, within the first three seconds of a network whose nodes 0 and 1 are neighbours."""

from __future__ import annotations

from barymesh.scenario.faults import Crash, Duplication, LinkDown, Loss, Reordering, Sleep

FAULTS = {
    "none": (),
    "loss": (Loss(0.4),),
    "duplication": (Duplication(0.5),),
    "reordering": (Reordering(0.5, 1.5),),
    "sleep": (Sleep(1, 0.7, 2.1),),
    "crash": (Crash(0, 0.5, 1.8), Crash(2, 1.0, 1.4)),
    "amnesia": (Crash(0, 0.5, 1.8, memory=False), Crash(1, 2.0, 2.2, memory=False)),
    "link down": (LinkDown(0, 1, 0.3, 2.5),),
    "everything": (
        Loss(0.2), Duplication(0.2), Reordering(0.3, 0.8), Sleep(1, 0.4, 1.5), Crash(2, 1.0, 2.0, memory=False),
        Crash(0, 2.0), LinkDown(0, 1, 1.2, 3.0),
    ),
}  # fmt: skip
