"""Poll a source once a second, for all browsers that show the page."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import TracebackType
from typing import Self

from barymesh.dashboard.scene import Recording, Scene, Source
from barymesh.errors import BarymeshError

# seconds between two polls
PAUSE = 1.0


class Poller:
    """Polls a source, within ``with``, in a thread of its own, and keeps the newest recording."""

    def __init__(self, source: Source, pause: float = PAUSE) -> None:
        self._source, self._pause = source, pause
        self._newest = Recording("barymesh", [Scene("Reading the first data.", running=False)]), 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._poll_until_closed, name="poller", daemon=True)

    def __enter__(self) -> Self:
        self._poll()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def newest(self) -> tuple[Recording, int]:
        """The newest recording, and its number."""
        return self._newest

    def _poll_until_closed(self) -> None:
        while not self._over.wait(self._pause):
            self._poll()

    def _poll(self) -> None:
        last, number = self._newest
        try:
            found = self._source.recording()
        except BarymeshError as error:
            scene = replace(last.newest, status=str(error), running=False)
            found = replace(last, scenes=[*last.scenes[:-1], scene])
        if _sign(found) != _sign(last):
            self._newest = found, number + 1


def _sign(recording: Recording) -> tuple[object, ...]:
    """What differs when there is something new to show."""
    scene = recording.newest
    return recording.title, len(recording.scenes), scene.status, scene.running, scene.now, dict(scene.counts)
