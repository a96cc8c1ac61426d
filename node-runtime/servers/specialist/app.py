"""The application for text models, whichever engine runs their weights."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from asgi import Receive
from json_requests import CallerDisconnected, JsonApp, answer_object, error
from specialist.engine import Engine
from specialist.layout import Layout
from specialist.openai_tasks import openai_tasks
from specialist.tasks import TextModel
from specialist.texts import Tokenization

MAX_BODY = 16 << 20
INFER = "/infer"


class SpecialistApp(JsonApp):
    """The application for encoders: `/infer` runs the weights' primary task; `/infer/<task type>` runs any of
    their tasks.
    """

    def __init__(self, layout: Layout, tokenization: Tokenization, engine: Engine) -> None:
        self._model = TextModel(layout, tokenization, engine)
        self._openai = openai_tasks(self._model, tokenization)
        self._natural = next(iter(self._model.tasks))

    async def _answer(self, scope: dict[str, Any], receive: Receive) -> tuple[int, Mapping[str, Any]]:
        method, path = scope["method"], scope["path"]
        if (method, path) == ("GET", "/health"):
            return 200, {"status": "ok", "task": self._natural, **self._model.facts}
        name = self._natural if path == INFER else path.removeprefix(f"{INFER}/")
        task = self._openai.get(path) or self._model.tasks.get(name)
        if method != "POST" or not (task or path.startswith(INFER)):
            return 404, error(f"There is no {method} {path} here; use GET /health or POST /infer.")
        if task is None:
            return 422, error(f"These weights serve {' and '.join(self._model.tasks)}, not {name}.")
        return await answer_object(receive, MAX_BODY, lambda body: _cancel_on_disconnect(task(body), receive))


async def _cancel_on_disconnect(work: Any, receive: Receive) -> Mapping[str, Any]:
    """Awaits the work, and cancels it if the caller disconnects."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(receive())
    await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
    if working.done():
        leaving.cancel()
        return working.result()
    working.cancel()
    raise CallerDisconnected
