"""Hosts of their own in network namespaces, and between them an internet that loses and delays packets.

``tc netem`` is not in every kernel. Here every namespace has a TUN device, and a thread of the test carries the packets
between them: a share of them is lost, the others are late. What TCP makes of it is real.
"""

from __future__ import annotations

import fcntl
import heapq
import os
import random
import selectors
import socket
import struct
import subprocess
import threading
import time
import uuid

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000


def missing():
    """Why this cannot be had here; None if it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not os.path.exists("/dev/net/tun"):
        return "this machine has no TUN devices"
    name = f"bm{uuid.uuid4().hex[:6]}"
    try:
        made = subprocess.run(["ip", "netns", "add", name], capture_output=True)
        subprocess.run(["ip", "netns", "delete", name], capture_output=True)
    except FileNotFoundError:
        return "there is no ip command (iproute2)"
    return None if made.returncode == 0 else "network namespaces are not allowed here"


class Internet:
    """``addresses`` of ``size`` hosts; ``prefixes`` run a command on each. A packet is lost with probability ``loss``,
    else it takes ``latency`` seconds."""

    def __init__(self, size, loss, latency, seed=0):
        self.loss, self.latency, self._random = loss, latency, random.Random(seed)
        self.lost = self.carried = 0
        mark = uuid.uuid4().hex[:6]
        self.names = [f"bm{mark}{k}" for k in range(size)]
        self.addresses = [f"10.77.0.{k + 1}" for k in range(size)]
        self.prefixes = [["ip", "netns", "exec", name] for name in self.names]
        self._tuns: list[int] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._carry, daemon=True)

    def __enter__(self):
        for name, address in zip(self.names, self.addresses, strict=True):
            _run("ip", "netns", "add", name)
            device = f"t{name[2:]}"
            tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH", device.encode(), IFF_TUN | IFF_NO_PI))
            self._tuns.append(tun)
            _run("ip", "link", "set", device, "netns", name)
            for command in (
                ["ip", "addr", "add", f"{address}/24", "dev", device],
                ["ip", "link", "set", device, "up"],
                ["ip", "link", "set", "lo", "up"],
            ):
                _run("ip", "netns", "exec", name, *command)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        for tun in self._tuns:
            os.close(tun)
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)

    def _carry(self):
        doors = dict(zip(map(socket.inet_aton, self.addresses), self._tuns, strict=True))
        waiting: list[tuple[float, int, int, bytes]] = []
        with selectors.DefaultSelector() as ears:
            for tun in self._tuns:
                ears.register(tun, selectors.EVENT_READ)
            while not self._ended.is_set():
                pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else 0.1
                for key, _ in ears.select(min(pause, 0.1)):
                    packet = os.read(key.fd, 65536)
                    # the destination of IPv4
                    target = doors.get(packet[16:20]) if packet[0] >> 4 == 4 else None
                    if target is None:
                        continue
                    if self._random.random() < self.loss:
                        self.lost += 1
                    else:
                        self.carried += 1
                        heapq.heappush(waiting, (time.monotonic() + self.latency, self.carried, target, packet))
                while waiting and waiting[0][0] <= time.monotonic():
                    _, _, target, packet = heapq.heappop(waiting)
                    os.write(target, packet)


def _run(*command):
    subprocess.run(command, check=True, capture_output=True)
