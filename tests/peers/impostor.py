"""In the place of a member, with its key and a measure of its own: it speaks the protocol as every node does, over real
sockets, and changes what it likes in its messages before they leave."""

from __future__ import annotations

import asyncio
import threading

import numpy as np

from barymesh.core import tree
from barymesh.engines.runtime import Runtime
from barymesh.peers.kit import Kit
from barymesh.peers.node import local_problem, open_runtime
from barymesh.transport.publisher import OutgoingMessage
from barymesh.transport.wire import encode


def honest(message):
    """The message as it is."""
    return message


def changed(**fields):
    """A lie about some fields of the header; a function is called with the message."""

    def lie(message):
        for name, value in fields.items():
            message[getattr(tree, name)] = value(message) if callable(value) else value
        return message

    return lie


class Impostor:
    """Works in a thread, until the end of ``with``. ``lie`` is called with each message ``(width,)``, and may be
    replaced at any time; None from it for no message. ``frames``: called with the frame for all, it may replace that
    too."""

    def __init__(self, kit: Kit, measure, lie=honest):
        self.kit, self.measure, self.lie, self.runtime = kit, measure, lie, None
        self.frames = honest
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._work()), daemon=True)

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.runtime.stop)
        self._thread.join(60)

    async def _work(self):
        self.loop = asyncio.get_running_loop()
        self.runtime: Runtime = await open_runtime(self.kit, local_problem(self.kit, self.measure), None)
        # it does not care whether others will take it
        self.runtime.transport.check = lambda *_: None
        self.runtime.links.publish_all = self._publish_all
        async with self.runtime.links:
            self._ready.set()
            await self.runtime.run()

    def _publish_all(self, messages, incarnation, sequence):
        links, outgoing = self.runtime.links, []
        for sender, vector, _, _ in messages:
            if (message := self.lie(np.array(vector))) is None:
                continue
            parent = message[tree.PARENT]
            receiver = links._hosts.get(int(parent)) if np.isfinite(parent) else None
            public = np.delete(message, links.format.private)
            frames = [
                self.frames(encode(links.format.run, sender, incarnation, sequence, values, with_private=private))
                for values, private in ((public, False), (message, True))
            ]
            outgoing.append(OutgoingMessage(sender, incarnation, *frames, receiver))
        links._publisher.read_requests()
        if outgoing:
            links._publisher.publish(outgoing)
