"""Model server for embeddings, rerankers and classifiers: see README.md."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent)]

from asgi import Receive, Send, refuse_weights, send_json, serve, server_arguments
from json_requests import CallerLeft, answer_object, error
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

    async def _answer(self, scope: dict[str, Any], receive: Receive) -> tuple[int, Mapping[str, Any]]:
        method, path = scope["method"], scope["path"]
        if (method, path) == ("GET", "/health"):
            return 200, {"status": "ok", "task": self._natural, **self._model.facts}
        name = self._natural if path == INFER else path.removeprefix(f"{INFER}/")
        task = self._openai.get(path) or self._model.tasks.get(name)
        if method != "POST" or not (task or path.startswith(INFER)):
            return 404, error(f"There is no {method} {path} here; ask GET /health or POST /infer.")
        if task is None:
            return 422, error(f"These weights serve {' and '.join(self._model.tasks)}, and not {name}.")
        return await answer_object(receive, LARGEST_BODY, lambda body: _unless_left(task(body), receive))


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
    except BadModel as problem:
        refuse_weights(str(problem))
    serve(SpecialistApp(model, openai_tasks(model, tokenization.decode)), options)


if __name__ == "__main__":
    main()
