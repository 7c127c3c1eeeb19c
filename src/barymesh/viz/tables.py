"""Results as tables on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich.filesize import decimal

from barymesh.result import Result


def print_result(result: Result, files: Mapping[str, str]) -> None:
    """The result, its certificate, and the files it was written to."""
    rows = {
        "measures": str(result.node_weights.shape[0]),
        "support": repr(result.support),
        "reg": f"{result.reg:.6g}",
        "objective": f"{result.value:.8g}",
    }
    if result.network is None:
        rows |= {
            "certified gap": _scientific(result.gap),
            "iterations": f"{result.iterations} in {result.seconds:.2f} s",
        }
    else:
        rows |= {"network": _network(result), **network_figures(result)}
        rows["feasibility residual"] += "  (how far the duals are from summing to 0)"
    moved = result.problem is not None and result.problem.free is not None
    rows["certified gap"] += f"  (the objective is within this of the best possible{' on these points' * moved})"
    names = {"weights": "weights", "picture": "picture", "history_picture": "history", "animation": "animation"}
    rows |= {shown: files[name] for name, shown in names.items() if name in files}
    rows["everything"] = files["result"]
    if "recording" in files:
        folder = Path(files["recording"]).parent
        rows["recording"] = f"{files['recording']}  (barymesh dashboard {folder} replays the run)"
    print(result.message, *_aligned(rows.items()), sep="\n")


def print_comparison(results: Mapping[str, Result], files: Mapping[str, str]) -> None:
    """The last numbers of every method, one column each."""
    figures = {method: network_figures(result) for method, result in results.items()}
    names = dict.fromkeys(name for rows in figures.values() for name in rows)
    lines = [("", *results), *((name, *(rows.get(name, "") for rows in figures.values())) for name in names)]
    first = next(iter(results.values()))
    print(f"{first.node_weights.shape[0]} measures on {_network(first)}; reg {first.reg:.6g}")
    print(*_aligned(lines), sep="\n")
    kinds = {"comparison_picture": "picture", "comparison": "table"}
    print(*_aligned([(kind, files[name]) for name, kind in kinds.items() if name in files]), sep="\n")


def network_figures(result: Result) -> dict[str, str]:
    """The numbers of a run on a network as texts, by name."""
    known = result.summary()
    figures = {
        "length of the run": f"{known.get('time', 0.0):.6g} s",
        "activations": f"{result.activations:,}",
        "messages": f"{result.messages:,}",
        "bytes": decimal(result.bytes),
        "consensus (mean L1)": f"{result.consensus:.3g}",
        "feasibility residual": f"{result.feasibility:.2g}",
    }
    if "tv" in known:
        figures["total variation"] = f"{known['tv']:.3g}"
        figures["dual objective - optimum"] = f"{known['dual_error']:.3g}"
        for level, row in known["until"].items():
            figures[f"time to TV {level}"] = "not reached" if row is None else f"{row['time']:.4g} s"
            figures[f"messages to TV {level}"] = "-" if row is None else f"{int(row['messages']):,}"
            figures[f"bytes to TV {level}"] = "-" if row is None else decimal(int(row["bytes"]))
    return {
        **figures,
        "certified gap": _scientific(result.gap),
        "time taken": f"{result.seconds:.2f} s",
        "of which recording": f"{result.recording_seconds:.2f} s",
    }


def _scientific(value: float) -> str:
    return f"{value:.1e}"


def _network(result: Result) -> str:
    network = result.network
    return "no network" if network is None else f"{network.name}: {network.size} nodes, {len(network.edges)} edges"


def _aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    """One line for each row, with aligned columns. Lines are not broken, so that paths can be copied."""
    table = list(rows)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
