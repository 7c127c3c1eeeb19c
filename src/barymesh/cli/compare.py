"""``barymesh compare``: several methods on one network."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Annotated

import typer

from barymesh.cli import completion
from barymesh.cli.config import COMPARE, Config, read_methods
from barymesh.cli.config_file import errors_with_lines, read_config
from barymesh.cli.dashboard import Open, with_dashboard
from barymesh.cli.exit_codes import INTERRUPTED, NOT_CONVERGED, error_as_json, finish, writable_folder
from barymesh.cli.parameters import ConfigPath, Json, Quiet
from barymesh.cli.reporting import collecting_warnings, print_json, print_warnings
from barymesh.dashboard.live import LiveFile
from barymesh.errors import BarymeshError, OptionError
from barymesh.options import Options, RunOptions
from barymesh.result import Result
from barymesh.status import Status


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog=app.info.epilog)(compare)


def compare(
    config: ConfigPath,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Methods joined by commas. Default: the key methods of the file.", autocompletion=completion.methods
        ),
    ] = None,
    watched: Open = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Simulate several methods on the same problem and network, and draw them together.

    Reads a file as 'barymesh simulate' does. Writes comparison.png, comparison.csv and summary.json to the output
    folder, and inside it a folder for each method with what 'barymesh simulate' writes, except run.npz. The true
    barycenter to compare with is computed once; the key reference = false leaves it out. A method that fails, and
    Ctrl-C, keep the results of the others.

    Examples:

      barymesh compare network.toml --methods dcwb,a2dwb,a2dwb_naive

      barymesh compare network.toml --json
    """

    def work() -> int:
        wanted = read_config(config, COMPARE)
        names = wanted.command.methods
        if methods is not None:
            names = read_methods("--methods", [name.strip() for name in methods.split(",")])
        if names is None:
            raise OptionError("Which methods? Give --methods dcwb,a2dwb, or the key methods in the file.")
        chosen = list(names)
        with errors_with_lines(config):
            return with_dashboard(watched, wanted.folder, lambda: _compare(wanted, chosen, as_json, quiet))

    finish(work, as_json)


@dataclass
class Outcome:
    """What the methods have come to."""

    results: dict[str, Result] = field(default_factory=dict)
    failures: dict[str, BarymeshError] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    interrupted: bool = False

    @property
    def code(self) -> int:
        """The exit code. A method that used up its time has not failed: some never stop by themselves."""
        if self.interrupted:
            return INTERRUPTED
        return NOT_CONVERGED if self.failures else 0

    def warn(self, messages: list[str]) -> None:
        """Keep the messages; one that comes with several methods, once."""
        self.messages += [message for message in messages if message not in self.messages]


def _compare(config: Config, methods: list[str], as_json: bool, quiet: bool) -> int:
    """Read the measures, simulate method by method, write the results. Returns the exit code."""
    from barymesh.io.output import write_comparison
    from barymesh.viz.tables import print_comparison

    folder = writable_folder(config.folder)
    outcome = _run_methods(config, methods, not (quiet or as_json))
    if not outcome.results:
        raise next(iter(outcome.failures.values()), KeyboardInterrupt())
    summary = {
        "methods": {method: result.summary() for method, result in outcome.results.items()},
        "failures": {method: error_as_json(failure) for method, failure in outcome.failures.items()},
        "warnings": outcome.messages,
    }
    with collecting_warnings() as messages:
        files = write_comparison(outcome.results, summary, folder)
    outcome.warn(messages)
    if as_json:
        print_json(summary, files, outcome.messages)
    else:
        print_warnings(outcome.messages)
        for method, failure in outcome.failures.items():
            typer.echo(f"Error: {method}: {failure}", err=True)
        print_comparison(outcome.results, files)
    return outcome.code


def _run_methods(config: Config, methods: list[str], progress: bool) -> Outcome:
    """Simulate the methods one after the other, each with the same problem, network and reference."""
    from barymesh.engines import run_on_network
    from barymesh.exact.reference import exact_reference
    from barymesh.io.output import write_outputs
    from barymesh.network import as_network
    from barymesh.problem import Problem

    outcome, folder, animation = Outcome(), config.folder, config.command.animation
    options = Options(config.command.measures(), **config.options)
    problem = Problem.create(**options.problem_arguments())
    network = as_network(options.network, len(problem.measures), problem.seed)
    common = {name: getattr(options, name) for name in RunOptions.fields()}
    common |= {"progress": progress, "snapshots": options.snapshots or animation is not None}
    with ExitStack() as stack:
        lives = {name: stack.enter_context(LiveFile(folder / name, name, options.duration)) for name in methods}
        for live in lives.values():
            live.announce("waiting")
        common["reference"] = exact_reference(problem) if config.options.get("reference", True) else False
        for method, live in lives.items():
            live.announce("starting")
            own = {"method": method, "step": config.step_for(method), "callback": live}
            try:
                with collecting_warnings() as messages:
                    result = run_on_network(problem, network, RunOptions(**{**common, **own}))
                    write_outputs(result, folder / method, animation=animation)
                outcome.warn(messages)
                outcome.results[method] = result
                outcome.interrupted = result.status is Status.INTERRUPTED
            except BarymeshError as error:
                outcome.failures[method] = error
            except KeyboardInterrupt:
                outcome.interrupted = True
            live.close(failed=method not in outcome.results)
            if outcome.interrupted:
                break
    return outcome
