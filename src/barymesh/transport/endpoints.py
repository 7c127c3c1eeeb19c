"""Endpoints, where peers listen: ``tcp://host:port`` or ``ipc://path``."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket

from barymesh.errors import OptionError

# no ";": libzmq would take the part before it for the source address of the connection
_TCP = re.compile(r"tcp://(\[[0-9A-Fa-f:.%\w]+\]|[^\s:;/\[\]]+):(\d{1,5})")
_IPC = re.compile(r"ipc://.+", re.DOTALL)


def checked(endpoint: str) -> str:
    """The endpoint. OptionError if it is malformed."""
    if not (_IPC.fullmatch(endpoint) or _tcp(endpoint)):
        raise OptionError(
            f"The endpoint {endpoint!r} is not of the form tcp://host:port (an IPv6 address in brackets) or ipc://path."
        )
    return endpoint


def is_local(endpoint: str) -> bool:
    """Whether nothing sent there leaves the machine. False for a host name, which may resolve to anything."""
    address = _address(endpoint)
    return _IPC.fullmatch(endpoint) is not None or (address is not None and address.is_loopback)


def is_ipv6(endpoint: str) -> bool:
    """Whether it has an IPv6 address, which needs an option of libzmq."""
    return endpoint.startswith("tcp://[")


async def resolved(endpoint: str) -> str:
    """The endpoint with its host name replaced by an address. libzmq would resolve it in the thread that all links
    share, where a slow name server delays them all."""
    tcp = _tcp(endpoint)
    if tcp is None or _address(endpoint) is not None:
        return endpoint
    found = await asyncio.get_running_loop().getaddrinfo(tcp[1], int(tcp[2]), type=socket.SOCK_STREAM)
    host = str(found[0][4][0])
    return f"tcp://[{host}]:{tcp[2]}" if ":" in host else f"tcp://{host}:{tcp[2]}"


def _tcp(endpoint: str) -> re.Match[str] | None:
    """Host and port; None if it is not a valid tcp endpoint."""
    tcp = _TCP.fullmatch(endpoint)
    return tcp if tcp and int(tcp[2]) < 2**16 else None


def _address(endpoint: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    tcp = _tcp(endpoint)
    try:
        return ipaddress.ip_address(tcp[1].strip("[]")) if tcp else None
    except ValueError:
        return None
