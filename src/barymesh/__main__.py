"""``python -m barymesh``."""

from barymesh.cli.app import app

app(prog_name="barymesh")
