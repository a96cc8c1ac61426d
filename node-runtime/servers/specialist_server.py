"""Model server for embeddings, rerankers and classifiers: see README.md."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent)]

import orjson
from answers import InputProblem
from asgi import BodyTooLarge, Receive, Send, read_body, refuse_weights, send_json, serve, server_arguments
from specialist.batching import QueueFull
from specialist.engine import BadAnswer
from specialist.layout import BadModel, read_layout
from specialist.openai_tasks import openai_tasks
from specialist.tasks import Task, TextModel
from specialist.weights import open_engine, places_of
from specialist.texts import Tokenization

LARGEST_BODY = 16 << 20
INFER = "/infer"


class SpecialistApp:
    """A plain ASGI application; `/infer` is the first task of the weights, `/infer/<task type>` any of them."""

    def __init__(self, model: TextModel, openai: dict[str, Task]) -> None:
        self._model = model
        self._openai = openai
        self._natural = next(iter(model.tasks))

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        status, body = await self._answer(scope, receive)
        await send_json(send, status, body)

    async def _answer(self, scope: dict[str, Any], receive: Receive) -> tuple[int, dict[str, Any]]:
        method, path = scope["method"], scope["path"]
        if (method, path) == ("GET", "/health"):
            return 200, {"status": "ok", "task": self._natural, **self._model.facts}
        name = self._natural if path == INFER else path.removeprefix(f"{INFER}/")
        task = self._openai.get(path) or self._model.tasks.get(name)
        if method != "POST" or not (task or path.startswith(INFER)):
            return 404, _error(f"There is no {method} {path} here; ask GET /health or POST /infer.")
        if task is None:
            return 422, _error(f"These weights serve {' and '.join(self._model.tasks)}, and not {name}.")
        try:
            body = orjson.loads(await read_body(receive, LARGEST_BODY))
            if not isinstance(body, dict):
                raise InputProblem("The body must be an object.", "")
            return 200, await _unless_left(task(body), receive)
        except InputProblem as problem:
            return 422, _error(str(problem), problem.path)
        except orjson.JSONDecodeError as error:
            return 400, _error(f"The body is not JSON: {error}")
        except BodyTooLarge:
            return 413, _error(f"The body is larger than {LARGEST_BODY >> 20} MB.")
        except QueueFull:
            return 503, _error("Too many texts wait for this model; try again later.")
        except BadAnswer as error:
            return 500, _error(str(error))
        except CallerLeft:
            return 499, _error("The caller has left.")
        except Exception as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            return 500, _error("The model failed on this request.")


class CallerLeft(Exception):
    """The connection was closed before the answer."""


async def _unless_left(work: Any, receive: Receive) -> Mapping[str, Any]:
    """Awaits the work, and cancels it when the caller leaves."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(receive())
    await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
    if working.done():
        leaving.cancel()
        return working.result()
    working.cancel()
    raise CallerLeft


def _error(message: str, path: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, **({"path": path} if path else {})}}


def main() -> None:
    """Loads the model, listens, and serves until SIGTERM."""
    parser = argparse.ArgumentParser(description="Serves one model of texts over HTTP.")
    parser.add_argument("--model", type=Path, required=True, help="folder in the format of Hugging Face")
    parser.add_argument("--converted", default="", help="folder of what specialist_convert.py wrote, if it did")
    parser.add_argument("--threads", type=int, default=1)
    server_arguments(parser)
    options = parser.parse_args()
    places = places_of(options.model, options.converted)
    try:
        layout = read_layout(options.model)
        tokenization = Tokenization(layout, places)
        model = TextModel(layout, tokenization, open_engine(layout, places, options.threads))
    except BadModel as error:
        refuse_weights(str(error))
    serve(SpecialistApp(model, openai_tasks(model, tokenization.decode)), options)


if __name__ == "__main__":
    main()
