"""The server for models that answer one request at a time, in order of arrival."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from asgi import Receive, until_disconnected
from json_requests import Busy, CallerDisconnected, JsonApp, answer_object, error

INFER = "/infer"
# The maximum number of waiting requests; further ones are rejected.
MAX_WAITING = 256


class SequentialModel(Protocol):
    """A model that serves one task."""

    task: str

    @property
    def facts(self) -> Mapping[str, Any]:
        """The facts that the health check reports about the model."""
        ...

    def probe(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the first request after a load, completed with the fields that this model requires."""
        ...

    def __call__(self, body: Mapping[str, Any], disconnected: threading.Event) -> dict[str, Any]:
        """Answers a request; raises `InputProblem` for a field, and `CallerDisconnected` once `disconnected` is set."""
        ...


# Answers a request on a separate path, as a model does.
Route = Callable[[Mapping[str, Any], threading.Event], dict[str, Any]]


class SequentialApp(JsonApp):
    """The application for one model; `routes` are further paths."""

    def __init__(self, model: SequentialModel, largest_body: int, routes: Mapping[str, Route] | None = None) -> None:
        self._model = model
        self._largest_body = largest_body
        self._routes = {INFER: model, f"{INFER}/{model.task}": model, **(routes or {})}
        self._worker = ThreadPoolExecutor(max_workers=1)
        self._waiting = 0

    async def _answer(self, scope: dict[str, Any], receive: Receive) -> tuple[int, Mapping[str, Any]]:
        method, path = scope["method"], scope["path"]
        model = self._model
        if (method, path) == ("GET", "/health"):
            return 200, {"status": "ok", "task": model.task, **model.facts}
        route = self._routes.get(path) if method == "POST" else None
        if not route:
            return 404, error(f"There is no {method} {path} here; use GET /health or POST {INFER}/{model.task}.")

        async def work(body: Mapping[str, Any]) -> Mapping[str, Any]:
            return await self._run(route, model.probe(body) if path == INFER else body, receive)

        return await answer_object(receive, self._largest_body, work)

    async def _run(self, route: Route, body: Mapping[str, Any], receive: Receive) -> dict[str, Any]:
        if self._waiting >= MAX_WAITING:
            raise Busy
        disconnected = threading.Event()
        disconnect_task = asyncio.ensure_future(until_disconnected(receive, disconnected))
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._worker, self._turn, route, body, disconnected)
        finally:
            self._waiting -= 1
            disconnect_task.cancel()

    def _turn(self, route: Route, body: Mapping[str, Any], disconnected: threading.Event) -> dict[str, Any]:
        if disconnected.is_set():
            raise CallerDisconnected
        return route(body, disconnected)
