"""``barymesh simulate``: a network whose nodes compute the barycenter together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from barymesh.cli.config import RUN, SIMULATE, Config
from barymesh.cli.config_file import SIMULATION, errors_with_lines, known_keys, read_config
from barymesh.cli.dashboard import Open, with_dashboard
from barymesh.cli.exit_codes import exit_code, finish, writable_folder
from barymesh.cli.parameters import ConfigPath, Json, Quiet, takes
from barymesh.cli.reporting import collecting_warnings, print_json, print_warnings
from barymesh.dashboard.live import LiveFile
from barymesh.options import Options
from barymesh.status import Status

HELP = f"""Simulate a network whose nodes compute the barycenter together, in virtual time.

The measures stay with their nodes, which exchange messages with their neighbours only. Writes what 'barymesh
barycenter' writes, and history.csv, history.png, run.npz (for --resume) and, with the key animation, an animation.
Ctrl-C keeps what there is.

Needed are reg, network, and data or gaussians. The keys of 'barymesh run' work here too, except max_iter and resume.
Further keys: {", ".join(name for name in known_keys(SIMULATE) if name not in known_keys(RUN))}.

With --engine processes or ray nothing is simulated: real workers, on this machine or a Ray cluster, run the same
network. Keys that have no meaning then, such as delays and faults, are refused.

Example file, 30 normal distributions drawn at random:

  gaussians = {{count = 30, mean = [-4, 4], std = [0.1, 0.6], seed = 0}}

  reg = 0.1

  support = "100:-5:5"

  network = "erdos_renyi:p=0.2"

  method = "sinkhorn"

  duration = 100

  delays = "uniform:low=0.1,high=0.5"

  faults = ["loss:probability=0.1", {{kind = "crash", node = 3, start = 10, stop = 20}}]

  reference = true

  animation = "gif"

Examples:

  barymesh simulate network.toml

  barymesh simulate network.toml --resume --json

  barymesh simulate network.toml --engine processes --workers 4
"""
# keys that may also be given as flags, which count before the file
FLAGS = [Options.fields()[name] for name in ("engine", "workers", "address")]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(help=HELP, epilog=app.info.epilog)(simulate)


@takes(FLAGS, defaults=False)
def simulate(
    config: ConfigPath,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run saved in the output folder, to the file's duration.")
    ] = False,
    watched: Open = False,
    as_json: Json = False,
    quiet: Quiet = False,
    **given: Any,
) -> None:
    """Simulate a network whose nodes compute the barycenter together."""

    def work() -> int:
        wanted = read_config(config, SIMULATE, {**given, **({"resume": True} if resume else {})})
        with errors_with_lines(config):
            return with_dashboard(watched, wanted.folder, lambda: _simulate(wanted, config, as_json, quiet))

    finish(work, as_json)


def _simulate(config: Config, path: Path, as_json: bool, quiet: bool) -> int:
    """Read the measures, run the network, write the results. Returns the exit code."""
    from barymesh.api import barycenter
    from barymesh.io.output import CHECKPOINT, write_outputs
    from barymesh.viz.tables import print_result

    options = config.options
    simulated = options.get("engine", SIMULATION) == SIMULATION
    folder = writable_folder(config.folder)
    animation = config.command.animation
    if animation is not None:
        options = {**options, "snapshots": True}
    if simulated:
        options = {**options, "checkpoint": folder / CHECKPOINT}
    measures = config.command.measures()
    method, duration = (options.get(name, Options.fields()[name].default) for name in ("method", "duration"))
    with LiveFile(folder, method, duration) as live, collecting_warnings() as messages:
        result = barycenter(measures, **options, callback=live, progress=not (quiet or as_json))
        files = write_outputs(result, folder, animation=animation)
    files["recording"] = str(live.recording)
    if simulated:
        files["run"] = str(folder / CHECKPOINT)
    if as_json:
        print_json(result.summary(), files, messages)
    else:
        print_warnings(messages)
        print_result(result, files)
        if result.status is Status.INTERRUPTED and simulated:
            typer.echo(f"To continue: barymesh simulate {path} --resume", err=True)
    return exit_code(result)
