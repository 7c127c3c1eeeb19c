"""``python -m barymesh``."""

from barymesh.cli import app

app(prog_name="barymesh")
