"""Model server for specialists that write text with PyTorch: see README.md."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent)]

import orjson
from answers import InputProblem
from asgi import BodyTooLarge, Receive, Send, read_body, refuse_weights, send_json, serve, server_arguments
from torch_tasks.translation import Cancelled, Translator
from weight_faults import is_fault_of_weights, reason_of

LARGEST_BODY = 16 << 20
INFER = "/infer"
TASK = "translation"
# Requests that wait for their turn; more are refused.
MOST_WAITING = 256


class TorchApp:
    """A plain ASGI application; requests take turns in the order in which they came."""

    def __init__(self, model: Translator) -> None:
        self._model = model
        self._worker = ThreadPoolExecutor(max_workers=1)
        self._waiting = 0

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        status, body = await self._answer(scope, receive)
        await send_json(send, status, body)

    async def _answer(self, scope: dict[str, Any], receive: Receive) -> tuple[int, dict[str, Any]]:
        method, path = scope["method"], scope["path"]
        if (method, path) == ("GET", "/health"):
            return 200, {"status": "ok", "task": TASK, **self._model.facts}
        if method != "POST" or path not in (INFER, f"{INFER}/{TASK}"):
            return 404, _error(f"There is no {method} {path} here; ask GET /health or POST {INFER}/{TASK}.")
        if self._waiting >= MOST_WAITING:
            return 503, _error("Too many requests wait for this model; try again later.")
        try:
            body = orjson.loads(await read_body(receive, LARGEST_BODY))
            if not isinstance(body, dict):
                raise InputProblem("The body must be an object.", "")
            return 200, await self._run(self._model.probe(body) if path == INFER else body, receive)
        except InputProblem as problem:
            return 422, _error(str(problem), problem.path)
        except orjson.JSONDecodeError as error:
            return 400, _error(f"The body is not JSON: {error}")
        except BodyTooLarge:
            return 413, _error(f"The body is larger than {LARGEST_BODY >> 20} MB.")
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


def main() -> None:
    """Loads the model, listens, and serves until SIGTERM."""
    parser = argparse.ArgumentParser(description="Serves one model of translation over HTTP.")
    parser.add_argument("--model", type=Path, required=True, help="folder in the format of Hugging Face")
    parser.add_argument("--threads", type=int, default=1)
    server_arguments(parser)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", str(options.threads))
    try:
        model = Translator(options.model, options.threads)
    except Exception as error:
        if is_fault_of_weights(error):
            refuse_weights(reason_of(error))
        sys.exit(f"The model in {options.model} cannot be served: {error}")
    serve(TorchApp(model), options)


if __name__ == "__main__":
    main()
