"""Counts and times of requests for Prometheus.

A request is counted under its route, never under its address: the number of series is bounded, and
no id of a person is kept.
"""

import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mom_pipeline.serving.champion import Champion
from mom_pipeline.serving.rates import Rate, rates, trial_difference
from mom_pipeline.serving.registry import NoChampion

# Where workers add up what they count; to be set before prometheus_client is imported.
WORKERS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_ELSEWHERE = "other"
# Rates are counted again after so long.
_RATES_SECONDS = 30.0


class ServiceMetrics:
    """What was asked since the start, of all workers together."""

    def __init__(self, champion: Champion) -> None:
        self._all, self._now = CollectorRegistry(), CollectorRegistry()
        self._now.register(_ModelMetrics(champion))
        own = None if os.environ.get(WORKERS_FOLDER) else self._all
        if own is None:
            MultiProcessCollector(self._all)  # type: ignore[no-untyped-call]
        labels = ["method", "route", "status"]
        self._requests = Counter("mom_requests", "Requests.", labels, registry=own)
        self._errors = Counter("mom_errors", "Requests of status 500 and above.", registry=own)
        said = "Seconds until the answer was sent."
        self._seconds = Histogram(
            "mom_request_seconds", said, ["route"], buckets=_BUCKETS, registry=own
        )

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, status).inc()
        self._seconds.labels(route).observe(seconds)
        if status >= 500:
            self._errors.inc()

    def text(self) -> bytes:
        """All of it as Prometheus reads it."""
        return generate_latest(self._all) + generate_latest(self._now)


class _ModelMetrics(Collector):
    """The model in use, and how often people took what they were shown."""

    def __init__(self, champion: Champion) -> None:
        self._champion = champion
        self._rates: tuple[float, list[Rate]] = 0.0, []

    def collect(self) -> Iterator[Metric]:
        """Gauges, as they are now."""
        degraded = float(self._champion.problem is not None)
        yield _gauge("model_degraded", "Whether the promoted model is not in use.", {(): degraded})
        try:
            model = self._champion.recommender().describe()
        except NoChampion:
            return
        yield _gauge("model_info", "The model in use.", {(model.version,): 1}, "version")
        yield _gauge("model_users", "Users of the model in use.", {(): model.users})
        yield _gauge("model_items", "Items of the model in use.", {(): model.items})
        store, (until, found) = self._champion.events, self._rates
        if time.monotonic() > until:
            found = rates(store)
            self._rates = time.monotonic() + _RATES_SECONDS, found
        shares: dict[tuple[str, ...], float] = {
            (each.by, each.of, each.type, bound): getattr(each, bound)
            for each in found
            for bound in ("low", "share", "high")
        }
        labels = "by", "of", "type", "bound"
        yield _gauge("shown_taken", "Share of the items shown that was taken.", shares, *labels)
        if (trial := self._champion.trial) is not None:
            result = trial_difference(store, trial)
            bounds = {name: getattr(result, name) for name in ("low", "difference", "high")}
            known = {(name,): value for name, value in bounds.items() if value is not None}
            yield _gauge("trial_difference", "Share taken, trial less control.", known, "bound")


def _gauge(name: str, said: str, values: Mapping[Any, float], *labels: str) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"mom_{name}", said, labels=labels)
    for own, value in values.items():
        family.add_metric(own, value)
    return family


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
