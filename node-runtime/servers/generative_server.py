"""Model server for generative models from diffusers and transformers; see README.md."""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import orjson

from answers import InputProblem
from asgi import (
    BodyTooLarge,
    Receive,
    Send,
    read_body,
    refuse_weights,
    send_json,
    serve,
    server_arguments,
    until_disconnected,
)
from data_urls import MAX_BODY
from generative.base import BadModel, GenerationOutput, GenerativeModel, Prepare
from generative.fields import MAX_SEED, integer_of
from generative.job import Cancelled, Job, UnusableOutput
from generative.model import load_model
from generative.openai_routes import ROUTES
from gpu_loss import end_if_gpu_is_lost, note_failure
from json_requests import error
from weight_faults import is_fault_of_weights, reason_of

INFER = "/infer"
OUTPUT_TYPE = b"application/x-hearth-output"
MAX_REASON = 300
CHUNK = 1 << 20

Event = tuple[str, Any]


class Request(NamedTuple):
    """The fields of a request, and the ASGI channels to its caller."""

    fields: Mapping[str, Any]
    receive: Receive
    send: Send


class GenerativeApp:
    """Runs one generation at a time. `/infer` runs the weights' primary task; `/infer/<task type>` and the
    routes for OpenAI's clients run any of their tasks.
    """

    def __init__(self, model: GenerativeModel) -> None:
        self._model = model
        self._natural = next(iter(model.tasks))
        self._turn = asyncio.Lock()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="generate")

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        method, path = scope["method"], scope["path"]
        if (method, path) == ("GET", "/health"):
            facts = {"model": self._model.name, "tasks": list(self._model.tasks), "busy": self._turn.locked()}
            return await send_json(send, 200, {"status": "ok", **facts})
        route = ROUTES.get(path)
        name = route.task if route else self._natural if path == INFER else path.removeprefix(f"{INFER}/")
        if method != "POST" or not (route or path.startswith(INFER)):
            return await send_json(
                send, 404, error(f"There is no {method} {path} here; use GET /health or POST /infer.")
            )
        if name not in self._model.tasks:
            served = " and ".join(self._model.tasks)
            return await send_json(send, 422, error(f"These weights serve {served}, not {name}."))
        try:
            fields = orjson.loads(await read_body(receive, MAX_BODY))
            if not isinstance(fields, dict):
                raise InputProblem("The body must be an object.", "")
            task = self._model.tasks[name]
            await self._generate(name, route.prepare(task) if route else task, Request(fields, receive, send))
        except InputProblem as problem:
            await send_json(send, 422, error(str(problem), problem.path))
        except orjson.JSONDecodeError as problem:
            await send_json(send, 400, error(f"The body is not JSON: {problem}"))
        except BodyTooLarge:
            await send_json(send, 413, error(f"The body is larger than {MAX_BODY >> 20} MB."))

    async def _generate(self, task: str, prepare: Prepare, request: Request) -> None:
        fields, receive, send = request
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[Event] = asyncio.Queue()

        def put(kind: str, value: Any) -> None:
            loop.call_soon_threadsafe(events.put_nowait, (kind, value))

        def on_step(step: int, steps: int) -> None:
            put("step", (step, steps))

        seed = integer_of(fields, "seed", 0, MAX_SEED)
        job = Job(fields, secrets.randbelow(2**32) if seed is None else seed, on_step)
        leaving = asyncio.create_task(until_disconnected(receive, job.cancelled))
        try:
            async with self._turn:
                # The thread ends within a step after the caller disconnects; only then can the next request
                # start.
                done = loop.run_in_executor(self._worker, _work, prepare, job, put)
                await _Answer(send, job, task, self._model.name).send(events)
                await done
        finally:
            job.cancelled.set()
            leaving.cancel()


def _work(prepare: Prepare, job: Job, put: Callable[[str, Any], None]) -> None:
    """Generates in a separate thread; the last event is the outcome."""
    try:
        job.check()
        put("output", prepare(job.fields)(job))
    except Cancelled:
        put("gone", None)
    except InputProblem as problem:
        put("refused", (str(problem), problem.path))
    except UnusableOutput as problem:
        put("unusable", str(problem))
    except Exception as error:
        note_failure(error)
        # Pipelines check their arguments before the first step, and their message says what is wrong.
        if isinstance(error, ValueError) and job.steps == 0:
            put("refused", (_first_line(error), ""))
        else:
            put("failed", "The model failed on this request.")


class _Answer:
    """The response to one request: lines of JSON; a file's line is followed by its bytes. It begins with the
    first step, so a request that is rejected before that gets its own HTTP status.
    """

    def __init__(self, send: Send, job: Job, task: str, model: str) -> None:
        self._send = send
        self._job = job
        self._task = task
        self._model = model
        self._began = False

    async def send(self, events: asyncio.Queue[Event]) -> None:
        """Sends events up to the one that ends the generation."""
        while True:
            kind, value = await events.get()
            if kind == "step":
                done, total = value
                await self._line({"event": "step", "step": done, "total": total})
                continue
            if kind == "output":
                await self._send_output(value)
            elif kind == "refused" and not self._began:
                await send_json(self._send, 422, error(*value))
            elif kind != "gone":
                await self._failed(kind, value if kind != "refused" else value[0])
            return

    async def _send_output(self, output: GenerationOutput) -> None:
        for file in output.files:
            head = {"filename": file.filename, "content_type": file.content_type, "modality": file.modality}
            await self._line({"event": "file", **head, "size_bytes": len(file.data)})
            for start in range(0, len(file.data), CHUNK):
                await self._bytes(file.data[start : start + CHUNK])
        facts = {"task_type": self._task, "pipeline": self._model, "seed": self._job.seed, "steps": self._job.steps}
        await self._line({"event": "result", "metadata": {**facts, **output.metadata}})
        await self._send({"type": "http.response.body", "body": b""})

    async def _failed(self, kind: str, message: str) -> None:
        if kind == "failed" and not self._began:
            return await send_json(self._send, 500, error(message))
        await self._line({"event": "error", "message": message, "retryable": kind == "failed"})
        await self._send({"type": "http.response.body", "body": b""})

    async def _line(self, value: Any) -> None:
        await self._bytes(orjson.dumps(value) + b"\n")

    async def _bytes(self, data: bytes) -> None:
        if not self._began:
            self._began = True
            headers = [(b"content-type", OUTPUT_TYPE)]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": data, "more_body": True})


def _first_line(error: BaseException) -> str:
    [line, *_] = str(error).splitlines() or [""]
    return line[:MAX_REASON]


def main() -> None:
    """Loads the model, listens, and serves until SIGTERM."""
    parser = argparse.ArgumentParser(description="Serves one generative model over HTTP.")
    parser.add_argument("--model", type=Path, required=True, help="folder in diffusers or transformers format")
    parser.add_argument("--threads", type=int, default=1)
    server_arguments(parser)
    options = parser.parse_args()
    try:
        model = load_model(options.model, options.threads)
    except BadModel as error:
        refuse_weights(str(error))
    except Exception as error:
        end_if_gpu_is_lost(error)
        if is_fault_of_weights(error):
            refuse_weights(reason_of(error))
        sys.exit(f"The model cannot be served: {error}")
    serve(GenerativeApp(model), options)


if __name__ == "__main__":
    main()
