"""One look a second at a source, for all who look at the page."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import TracebackType
from typing import Self

from barymesh.dashboard.scene import Scene, Source
from barymesh.errors import BarymeshError

# seconds between two looks
PAUSE = 1.0


class Watch:
    """Looks, within ``with``, in a thread of its own, and keeps the newest scene."""

    def __init__(self, source: Source, pause: float = PAUSE) -> None:
        self._source, self._pause = source, pause
        self._newest = Scene("barymesh", "Looking for the first time.", False), 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="watch", daemon=True)

    def __enter__(self) -> Self:
        self._look()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def newest(self) -> tuple[Scene, int]:
        """The newest scene, and its number."""
        return self._newest

    def _look_on(self) -> None:
        while not self._over.wait(self._pause):
            self._look()

    def _look(self) -> None:
        last, number = self._newest
        try:
            scene = self._source.scene()
        except BarymeshError as error:
            scene = replace(last, status=str(error), running=False)
        if scene is not last:
            self._newest = scene, number + 1
