"""Counts and times of requests for Prometheus.

A request is counted under its route, never under its address: the number of series is bounded, and
no id of a person is kept.
"""

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mom_pipeline.serving.champion import Champion
from mom_pipeline.serving.registry import NoChampion

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_ELSEWHERE = "other"


class ServiceMetrics:
    """What was asked since the start, and the model in use."""

    def __init__(self) -> None:
        self._all = own = CollectorRegistry()
        labels = ["method", "route", "status"]
        self._requests = Counter("mom_requests", "Requests.", labels, registry=own)
        self._errors = Counter("mom_errors", "Requests of status 500 and above.", registry=own)
        said = "Seconds until the answer was sent."
        self._seconds = Histogram(
            "mom_request_seconds", said, ["route"], buckets=_BUCKETS, registry=own
        )
        self._model = Gauge("mom_model_info", "The model in use.", ["version"], registry=own)
        self._users = Gauge("mom_model_users", "Users of the model in use.", registry=own)
        self._items = Gauge("mom_model_items", "Items of the model in use.", registry=own)
        said = "Whether the promoted model is not in use."
        self._degraded = Gauge("mom_model_degraded", said, registry=own)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, status).inc()
        self._seconds.labels(route).observe(seconds)
        if status >= 500:
            self._errors.inc()

    def text(self, champion: Champion) -> bytes:
        """All of it as Prometheus reads it."""
        self._degraded.set(champion.problem is not None)
        self._model.clear()
        try:
            model = champion.recommender().describe()
        except NoChampion:
            return generate_latest(self._all)
        self._model.labels(model.version).set(1)
        self._users.set(model.users)
        self._items.set(model.items)
        return generate_latest(self._all)


class Measured:
    """An ASGI application that counts the requests of another one; HEAD is answered like GET."""

    def __init__(self, app: ASGIApp, metrics: ServiceMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "HEAD":  # the server leaves out the body
            scope = {**scope, "method": "GET"}
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
