"""A limit on how long a client may take to send a request.

uvicorn waits for the rest of a request for ever: clients that send a byte now and then would keep
their connections, and with them the descriptors of the process.
"""

import asyncio

from uvicorn.protocols.http.auto import AutoHTTPProtocol

SECONDS_FOR_A_REQUEST = 10.0


class TimedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """uvicorn's protocol, which closes a connection whose request does not become complete."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Start the clock with a request, and stop it when all of the request is there."""
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete and not cycle.more_body:
            self._stop()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(SECONDS_FOR_A_REQUEST, self.transport.close)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
