"""Read a network from a file of edges."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from barymesh.errors import NetworkError
from barymesh.io.limits import require_regular
from barymesh.network.topology import Network, require_size

SUFFIXES = (".csv", ".txt", ".edges")
# the number of a node has fewer; Python reads no number of thousands
DIGITS = 20


def read_edges(file: Path, size: int) -> Network:
    """A network on nodes 0..m-1 from a file with two nodes and perhaps a weight a line.

    Columns are parted by commas, semicolons or blanks; # begins a comment; a first line without numbers is a header.
    """
    if file.suffix.lower() not in SUFFIXES:
        raise NetworkError(f"The network {file} is not a file of edges; those end in {', '.join(SUFFIXES)}.")
    if file.exists():
        require_regular(file)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise NetworkError(f"The network {file} cannot be read as a text file: {error}.") from error
    contents = ((k, line.partition("#")[0].strip()) for k, line in enumerate(text.splitlines(), 1))
    lines = [(k, re.split(r"\s*[,;]\s*|\s+", content)) for k, content in contents if content]
    if lines and np.isnan([_number(cell) for cell in lines[0][1]]).all():
        lines = lines[1:]
    edges: dict[tuple[int, int], float] = {}
    first: dict[tuple[int, int], int] = {}
    for number, cells in lines:
        where = f"{file}, line {number}"
        if len(cells) not in (2, 3) or not all(cell.isdecimal() and len(cell) <= DIGITS for cell in cells[:2]):
            raise NetworkError(
                f"{where}: {' '.join(cells)!r} is not read; write two node numbers, from 0 on, and perhaps a weight."
            )
        one, other = sorted((int(cells[0]), int(cells[1])))
        if one == other:
            raise NetworkError(f"{where}: node {one} has a self-loop. Remove the line.")
        if other >= size:
            raise NetworkError(f"{where}: there is no node {other}; {size} measures are nodes 0 to {size - 1}.")
        if (one, other) in edges:
            raise NetworkError(
                f"{where}: the edge ({one}, {other}) is in line {first[one, other]} already. Remove one."
            )
        weight = 1.0 if len(cells) == 2 else _number(cells[2])
        if not 0 < weight < np.inf:
            raise NetworkError(f"{where}: the weight {cells[2]!r} is not a positive finite number.")
        edges[one, other], first[one, other] = weight, number
    if not edges and size > 1:
        raise NetworkError(f"The network {file} has no edges; write two node numbers a line.")
    require_size(max((pair[1] for pair in edges), default=0) + 1, size, f"The network {file}")
    return Network(size, list(edges), list(edges.values()), name=file.name)


def _number(cell: str) -> float:
    """Not a number if it is none."""
    try:
        return float(cell)
    except ValueError:
        return np.nan
