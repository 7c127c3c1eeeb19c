"""Which keys may connect. pyzmq's authenticator answers libzmq (ZAP, RFC 27); the list of keys is ours."""

from __future__ import annotations

import logging
from typing import Any

from barymesh.extras import needs
from barymesh.transport import keys
from barymesh.transport.rate_limit import RateLimit

with needs("peers"):
    import zmq
    from zmq.auth.asyncio import AsyncioAuthenticator
    from zmq.utils import z85

_log = logging.getLogger(__name__)

# of all CURVE servers here
DOMAIN = "barymesh"


class AdmittedKeys:
    """The public keys that may connect, each with the name of its peer. ``refused_connections`` counts the others."""

    def __init__(self) -> None:
        self.refused_connections = 0
        self.names: dict[bytes, str] = {}
        # where the connection that is being decided comes from
        self.address = "unknown"
        self._log_limit = RateLimit()

    def admit(self, public: str, name: str) -> None:
        """From now on let this key connect. What it sends carries ``name`` as its User-Id."""
        self.names[keys.raw_public(public)] = name

    def dismiss(self, public: str) -> None:
        """No longer let this key connect. A connection that exists is not ended: libzmq authenticates only once."""
        self.names.pop(keys.raw_public(public), None)

    def callback(self, domain: str, key: bytes) -> bool:
        """Whether the key (Z85) may connect: the callback of a pyzmq credentials provider."""
        if z85.decode(key) in self.names:
            return True
        self.refused_connections += 1
        if (suppressed := self._log_limit.suppressed("unknown key")) is not None:
            fingerprint = keys.fingerprint(key.decode())
            _log.warning(
                "refused a connection from %s with the unknown key %s",
                self.address,
                fingerprint,
                extra={"address": self.address, "fingerprint": fingerprint, "suppressed": suppressed},
            )
        return False


class PeerAuthenticator(AsyncioAuthenticator):
    """Answers for all CURVE servers of a context. It must be started before the first of them is bound: without an
    authenticator libzmq admits every connection. While it does not answer, none is admitted."""

    def __init__(self, context: zmq.Context[Any], admitted: AdmittedKeys) -> None:
        super().__init__(context)
        self._admitted = admitted
        self.configure_curve_callback(DOMAIN, admitted)

    async def handle_zap_message(self, msg: list[bytes]) -> None:
        """Answer one request. Its fourth frame is the address, which a credentials provider is not given."""
        self._admitted.address = ascii(msg[3].decode(errors="replace")) if len(msg) > 3 else "unknown"
        await super().handle_zap_message(msg)

    def curve_user_id(self, client_public_key: bytes) -> str:
        """The name of the peer with this key."""
        return self._admitted.names[client_public_key]
