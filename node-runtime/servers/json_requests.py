"""Requests with JSON bodies, and their errors, for model servers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson

from answers import InputProblem
from asgi import BodyTooLarge, Receive, Send, read_body, send_json
from gpu_loss import note_failure
from json_values import is_object


class CallerDisconnected(Exception):
    """The connection was closed before the response."""


class Busy(Exception):
    """Too many requests are already waiting for the model."""


class BadOutput(Exception):
    """The model's output isn't a valid result; the message is for the caller."""


class JsonApp:
    """A plain ASGI application, because a server with so few routes doesn't need a framework; each response
    is one JSON object.
    """

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        status, body = await self._answer(scope, receive)
        await send_json(send, status, body)

    async def _answer(self, scope: dict[str, Any], receive: Receive) -> tuple[int, Mapping[str, Any]]:
        raise NotImplementedError


Work = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


async def answer_object(receive: Receive, largest: int, work: Work) -> tuple[int, Mapping[str, Any]]:
    """Like `answer_json`, but for a body that must be an object."""

    async def work_on_object(body: Any) -> Mapping[str, Any]:
        if not is_object(body):
            raise InputProblem("The body must be an object.", "")
        return await work(body)

    return await answer_json(receive, largest, work_on_object)


async def answer_json(
    receive: Receive, largest: int, work: Callable[[Any], Awaitable[Mapping[str, Any]]]
) -> tuple[int, Mapping[str, Any]]:
    """Reads the body, and returns the status and result of `work`, or an error status with a message."""
    try:
        return 200, await work(orjson.loads(await read_body(receive, largest)))
    except InputProblem as problem:
        return 422, error(str(problem), problem.path)
    except orjson.JSONDecodeError as problem:
        return 400, error(f"The body is not JSON: {problem}")
    except BodyTooLarge:
        return 413, error(f"The body is larger than {largest >> 20} MB.")
    except Busy:
        return 503, error("Too many requests are waiting for this model; try again later.")
    except BadOutput as problem:
        return 500, error(str(problem))
    except CallerDisconnected:
        return 499, error("The caller has disconnected.")
    except Exception as problem:
        note_failure(problem)
        return 500, error("The model failed on this request.")


def error(message: str, path: str | None = None) -> dict[str, Any]:
    """Returns the body of an error; `path` is the JSON pointer of the field."""
    return {"error": {"message": message, **({"path": path} if path else {})}}
