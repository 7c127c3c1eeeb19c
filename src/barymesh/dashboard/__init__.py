"""Running computations in a browser: ``barymesh dashboard``. ``LiveFile`` is the callback that makes a run visible."""

from barymesh.dashboard.live import LiveFile

__all__ = ["LiveFile"]
