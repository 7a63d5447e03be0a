"""Metrics of a server, for Prometheus."""

import time
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import HTTPException
from fastapi.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SECONDS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60]


class Metrics:
    """Counts calls, and answers GET /metrics in the text format of Prometheus.

    `paths` are the POST routes. All other paths count as one, so that clients cannot
    make up names. `health()` is the answer of /health. Raises RuntimeError without
    prometheus-client.
    """

    def __init__(
        self,
        app: ASGIApp,
        paths: set[str],
        health: Callable[[], Awaitable[dict[str, Any]]],
    ) -> None:
        try:
            import prometheus_client as prometheus  # optional
        except ImportError:
            raise RuntimeError(
                "METRICS=1 needs prometheus-client: `uv add prometheus-client`"
            ) from None
        self.app, self.paths, self.health = app, paths, health
        self._prometheus = prometheus
        self._registry = prometheus.CollectorRegistry()
        self._gauges: dict[str, Any] = {}
        own: dict[str, Any] = {"registry": self._registry}
        text = "Requests, by path and status"
        self._calls = prometheus.Counter("env_calls", text, ["path", "status"], **own)
        text = "Answers that told the policy of an error"
        self._errors = prometheus.Counter("env_errors", text, ["path"], **own)
        text, own["buckets"] = "Time from request to answer", SECONDS
        self._seconds = prometheus.Histogram("env_call_seconds", text, ["path"], **own)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path: str = scope["path"]
        if path == "/metrics":
            await self._answer(scope, receive, send)
            return
        label = path if path in self.paths else "other"
        started, status = time.perf_counter(), 500

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message.get("body", b"").startswith(b'{"output": "error: '):
                self._errors.labels(label).inc()
            await send(message)

        try:
            await self.app(scope, receive, counted)
        finally:
            self._calls.labels(label, str(status)).inc()
            self._seconds.labels(label).observe(time.perf_counter() - started)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            health = await self.health()
        except HTTPException:  # no shard is up
            health = {"sessions": 0, "hung_calls": 0, "shards_up": 0}
        for name, value in health.items():
            if isinstance(value, int):
                if name not in self._gauges:
                    about = f"env_{name}", f"{name} of /health"
                    gauge = self._prometheus.Gauge(*about, registry=self._registry)
                    self._gauges[name] = gauge
                self._gauges[name].set(value)
        text = self._prometheus.generate_latest(self._registry)
        kind = self._prometheus.CONTENT_TYPE_LATEST
        await Response(text, media_type=kind)(scope, receive, send)
