"""Counts and times of requests, in the text format of Prometheus.

A request is counted under its route, never under its address, so that the number of series is
bounded and no id of a person is kept.
"""

import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator

from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_ELSEWHERE = "other"


class RequestMetrics:
    """What was asked since the start; requests are counted on the one thread of the event loop."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._buckets: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(_BUCKETS) + 1))
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests[method, route, status] += 1
        self._buckets[route][bisect_left(_BUCKETS, seconds)] += 1
        self._seconds[route] += seconds

    def lines(self) -> Iterator[str]:
        yield "# HELP mom_requests_total Requests by method, route and status."
        yield "# TYPE mom_requests_total counter"
        for (method, route, status), count in sorted(self._requests.items()):
            labels = f'method="{method}",route="{route}",status="{status}"'
            yield f"mom_requests_total{{{labels}}} {count}"
        yield "# HELP mom_errors_total Requests that failed: status 500 and above."
        yield "# TYPE mom_errors_total counter"
        failed = sum(n for (_, _, status), n in self._requests.items() if status >= 500)
        yield f"mom_errors_total {failed}"
        yield "# HELP mom_request_seconds Seconds until the answer was sent, by route."
        yield "# TYPE mom_request_seconds histogram"
        for route, buckets in sorted(self._buckets.items()):
            total = 0
            for limit, count in zip((*_BUCKETS, "+Inf"), buckets, strict=True):
                total += count
                yield f'mom_request_seconds_bucket{{route="{route}",le="{limit}"}} {total}'
            yield f'mom_request_seconds_sum{{route="{route}"}} {self._seconds[route]:.6f}'
            yield f'mom_request_seconds_count{{route="{route}"}} {total}'


class Measured:
    """An ASGI application that counts the requests of another one."""

    def __init__(self, app: ASGIApp, metrics: RequestMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500

        async def noting_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting_status)
        finally:
            # Set by the router; without one, the address is nothing of ours.
            route = getattr(scope.get("route"), "path", _ELSEWHERE)
            method = scope["method"] if route != _ELSEWHERE else _ELSEWHERE
            self._metrics.count(method, route, status, time.perf_counter() - start)


def exposition(
    metrics: RequestMetrics, version: str | None, users: int, items: int, degraded: bool
) -> str:
    """All that /metrics says. version: None before there is a model."""
    lines = [
        *metrics.lines(),
        "# HELP mom_model_info The model in use.",
        "# TYPE mom_model_info gauge",
        *([f'mom_model_info{{version="{version}"}} 1'] if version else []),
        "# HELP mom_model_users Users of the model in use.",
        "# TYPE mom_model_users gauge",
        f"mom_model_users {users}",
        "# HELP mom_model_items Items of the model in use.",
        "# TYPE mom_model_items gauge",
        f"mom_model_items {items}",
        "# HELP mom_model_degraded Whether the promoted model is not the one in use.",
        "# TYPE mom_model_degraded gauge",
        f"mom_model_degraded {int(degraded)}",
    ]
    return "\n".join(lines) + "\n"
