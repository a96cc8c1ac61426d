"""The server of models that answer one request at a time, in the order in which they came."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import orjson
from answers import InputProblem
from asgi import BodyTooLarge, Receive, Send, read_body, send_json

INFER = "/infer"
# Requests that wait for their turn; more are refused.
MOST_WAITING = 256


class Cancelled(Exception):
    """The caller has left."""


class BadOutput(Exception):
    """The model answered with something that is no result; the text is for the caller."""


class TurnModel(Protocol):
    """A model that serves one task."""

    task: str
    # What the health check tells about the model.
    facts: Mapping[str, Any]

    def probe(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the first request of a load, with what a request needs of this model."""

    def __call__(self, body: Mapping[str, Any], left: threading.Event) -> dict[str, Any]:
        """Answers a request; raises `InputProblem` for a field, and `Cancelled` once `left` is set."""


class TurnApp:
    """A plain ASGI application for one model."""

    def __init__(self, model: TurnModel, largest_body: int) -> None:
        self._model = model
        self._largest_body = largest_body
        self._worker = ThreadPoolExecutor(max_workers=1)
        self._waiting = 0

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        status, body = await self._answer(scope, receive)
        await send_json(send, status, body)

    async def _answer(self, scope: dict[str, Any], receive: Receive) -> tuple[int, dict[str, Any]]:
        method, path = scope["method"], scope["path"]
        task = self._model.task
        if (method, path) == ("GET", "/health"):
            return 200, {"status": "ok", "task": task, **self._model.facts}
        if method != "POST" or path not in (INFER, f"{INFER}/{task}"):
            return 404, _error(f"There is no {method} {path} here; ask GET /health or POST {INFER}/{task}.")
        if self._waiting >= MOST_WAITING:
            return 503, _error("Too many requests wait for this model; try again later.")
        try:
            body = orjson.loads(await read_body(receive, self._largest_body))
            if not isinstance(body, dict):
                raise InputProblem("The body must be an object.", "")
            return 200, await self._run(self._model.probe(body) if path == INFER else body, receive)
        except InputProblem as problem:
            return 422, _error(str(problem), problem.path)
        except orjson.JSONDecodeError as error:
            return 400, _error(f"The body is not JSON: {error}")
        except BodyTooLarge:
            return 413, _error(f"The body is larger than {self._largest_body >> 20} MB.")
        except BadOutput as error:
            return 500, _error(str(error))
        except Cancelled:
            return 499, _error("The caller has left.")
        except Exception as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            return 500, _error("The model failed on this request.")

    async def _run(self, body: Mapping[str, Any], receive: Receive) -> dict[str, Any]:
        left = threading.Event()
        leaving = asyncio.ensure_future(_until_gone(receive, left))
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._worker, self._turn, body, left)
        finally:
            self._waiting -= 1
            leaving.cancel()

    def _turn(self, body: Mapping[str, Any], left: threading.Event) -> dict[str, Any]:
        if left.is_set():
            raise Cancelled
        return self._model(body, left)


async def _until_gone(receive: Receive, left: threading.Event) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    left.set()


def _error(message: str, path: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, **({"path": path} if path else {})}}
