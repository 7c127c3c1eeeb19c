"""Runs as they go on, in a browser: ``barymesh dashboard``. ``LiveFile`` is the callback that lets a run be watched."""

from barymesh.dashboard.live import LiveFile

__all__ = ["LiveFile"]
