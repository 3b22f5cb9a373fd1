"""A limit on how long a client may take to send a request; uvicorn alone waits for ever."""

import asyncio

from uvicorn.protocols.http.auto import AutoHTTPProtocol

SECONDS_FOR_A_REQUEST = 10.0


class TimedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """uvicorn's protocol, which closes a connection whose request does not become complete."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.loop.call_later(SECONDS_FOR_A_REQUEST, self._look, None)

    def _look(self, before: object) -> None:
        """Close the connection if it waits for the same request as at the last look."""
        waits = self.cycle is None or self.cycle.response_complete or self.cycle.more_body
        if waits and self.cycle is before:
            self.transport.close()
        elif not self.transport.is_closing():
            self.loop.call_later(SECONDS_FOR_A_REQUEST, self._look, self.cycle)
