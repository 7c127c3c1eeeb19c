"""The command line, called in this process."""

from __future__ import annotations

from typer.testing import CliRunner

from barymesh.cli.app import app


def call(*arguments):
    """Run a command; it must end with an exit code and without a traceback."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if not isinstance(done.exception, SystemExit | None):
        raise done.exception
    assert "Traceback" not in done.output
    return done
