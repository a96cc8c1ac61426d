"""OpenAI-compatible server for one language model in a Hugging Face folder; see README.md."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

sys.path.insert(0, str(Path(__file__).parent))

import orjson

from asgi import (
    BodyTooLarge,
    Receive,
    Send,
    read_body,
    refuse_weights,
    send_json,
    send_text,
    serve,
    server_arguments,
    until_disconnected,
)
from exchange import BadPayload, Exchange
from gpu_loss import end_if_gpu_is_lost, note_failure
from json_values import is_object
from llm.adapters import PREFIX, AdapterRefused, read_adapter
from llm.cache_files import StoredPrompt, write_prompt
from llm.engine import Engine
from llm.generation import Cancelled, Generation, Guided
from llm.grammar import Grammars
from llm.model import LanguageModel, find_model
from llm.options import Sampling, Unusable
from llm.reasoning import REASONING_TAGS, ReasoningParser
from llm.request import SERVED_NAME, ChatRequest, ReadRequest
from llm.text import CALL_MARKS, Answer, Detokenizer, Piece
from llm.tool_calls import gather
from weight_faults import is_fault_of_weights, reason_of

MAX_BODY = 64 << 20
SSE = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]


@dataclass
class Chat:
    """A request that has been checked and tokenized."""

    request: ChatRequest
    generation: Generation
    answer: Answer
    guide: Guided | None
    # The ids of the tokens generated so far, excluding the end token.
    written: list[int] = field(default_factory=list[int])


@dataclass
class Reading:
    """A prompt to prefill for another server."""

    generation: Generation
    path: Path
    fingerprint: str
    adapter_digest: str


Task = TypeVar("Task", Chat, Reading)


class ChatApp:
    """Serves chat completions; the engine computes the requests in flight together."""

    def __init__(self, model: LanguageModel, engine: Engine, exchange: Exchange) -> None:
        self._model = model
        self._engine = engine
        self._exchange = exchange
        self._grammars = Grammars(model)
        self._in_flight = 0

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        route = (scope["method"], scope["path"])
        if route == ("POST", "/v1/chat/completions"):
            await self._answer(receive, send, self._prepare_chat, self._chat)
        elif route == ("POST", "/prefill"):
            await self._answer(receive, send, self._prepare_reading, self._prefill)
        elif route == ("POST", "/decode"):
            await self._answer(receive, send, self._prepare_decoding, self._chat)
        elif route == ("POST", "/v1/load_lora_adapter"):
            await self._change_adapters(receive, send, self._load_adapter)
        elif route == ("POST", "/v1/unload_lora_adapter"):
            await self._change_adapters(receive, send, self._unload_adapter)
        elif route == ("GET", "/health"):
            await send_json(send, 200, {"status": "ok", "in_flight": self._in_flight})
        elif route == ("GET", "/metrics"):
            await send_text(send, _metrics(self._engine))
        elif route == ("GET", "/v1/models"):
            card = {"id": SERVED_NAME, "object": "model", "created": 0, "owned_by": "hearth"}
            adapters = [{**card, "id": name, "parent": SERVED_NAME} for name in self._model.adapters.names()]
            await send_json(send, 200, {"object": "list", "data": [card, *adapters]})
        else:
            await send_json(send, 404, _error(f"there is no {route[0]} {route[1]} here"))

    async def _answer(
        self,
        receive: Receive,
        send: Send,
        prepare: Callable[[Any], Task],
        work: Callable[[Task, Send], Awaitable[None]],
    ) -> None:
        try:
            body = await read_body(receive, MAX_BODY)
            task = await asyncio.get_running_loop().run_in_executor(None, lambda: prepare(orjson.loads(body)))
        except BadPayload as problem:
            return await send_json(send, 422, _payload_error(problem))
        except Unusable as problem:
            return await send_json(send, 400, _error(str(problem), field=problem.field))
        except orjson.JSONDecodeError as error:
            return await send_json(send, 400, _error(f"the body is not JSON: {error}"))
        except BodyTooLarge:
            return await send_json(send, 413, _error(f"the body is larger than {MAX_BODY >> 20} MB"))
        leaving = asyncio.create_task(until_disconnected(receive, task.generation.cancelled))
        self._in_flight += 1
        try:
            await work(task, send)
        except Cancelled:
            return  # The caller has disconnected.
        finally:
            self._in_flight -= 1
            task.generation.cancelled.set()
            leaving.cancel()

    async def _change_adapters(
        self, receive: Receive, send: Send, change: Callable[[dict[str, Any]], Awaitable[None]]
    ) -> None:
        try:
            body: Any = orjson.loads(await read_body(receive, MAX_BODY))
            if not is_object(body) or not isinstance(body.get("lora_name"), str):
                return await send_json(send, 400, _error("lora_name must be a string", field="lora_name"))
            await change(body)
        except AdapterRefused as problem:
            return await send_json(send, 400, _error(str(problem)))
        except orjson.JSONDecodeError as error:
            return await send_json(send, 400, _error(f"the body is not JSON: {error}"))
        except KeyError as problem:
            return await send_json(send, 404, _error(f"there is no adapter {problem}"))
        await send_json(send, 200, {"status": "ok"})

    async def _load_adapter(self, body: dict[str, Any]) -> None:
        name, path = body["lora_name"], body.get("lora_path")
        if not name.startswith(PREFIX) or not isinstance(path, str):
            raise AdapterRefused(f"lora_name must begin with {PREFIX}, and lora_path must be a folder")
        files = await asyncio.get_running_loop().run_in_executor(None, read_adapter, Path(path))
        await asyncio.wrap_future(self._engine.change(lambda: self._model.adapters.load(name, files)))

    async def _unload_adapter(self, body: dict[str, Any]) -> None:
        name = body["lora_name"]
        await asyncio.wrap_future(self._engine.change(lambda: self._model.adapters.unload(name)))

    def _adapter_of(self, body: Any) -> str | None:
        """Returns the adapter that a request names; None for the model itself, which accepts any other name."""
        name = body.get("model") if is_object(body) else None
        if not isinstance(name, str) or not name.startswith(PREFIX):
            return None
        if not self._model.adapters.has(name):
            raise Unusable("this adapter is not loaded", "model")
        return name

    def _prepare_chat(self, body: Any) -> Chat:
        request = ChatRequest.read(body)
        adapter = self._adapter_of(body)
        prompt = request.tokens
        if prompt is None:
            prompt = self._model.render(request.messages, request.output.described, adapter)
        elif max(prompt) >= self._model.vocabulary:
            raise Unusable(f"prompt has token ids beyond this model's vocabulary of {self._model.vocabulary}", "prompt")
        return self._chat_of(request, Generation(prompt, request.sampling, adapter=adapter))

    def _prepare_decoding(self, body: Any) -> Chat:
        request = ChatRequest.read(body, with_messages=False)
        path = self._exchange.verified(body.get("file"), body.get("size_bytes"), body.get("sha256"))
        adapter = self._adapter_of(body)
        stored = StoredPrompt(path, self._model, body.get("space_fingerprint"), self._model.adapters.digest_of(adapter))
        generation = Generation(stored.tokens, request.sampling, stored.load, adapter)
        return self._chat_of(request, generation)

    def _chat_of(self, request: ChatRequest, generation: Generation) -> Chat:
        output = request.output
        self._model.remaining_tokens(generation)
        answer = Answer(
            request.stops,
            frozenset(tool.name for tool in output.tools),
            output.one_call,
            raw_tool_calls=output.schema is None,
            reasoning=ReasoningParser(self._model.open_reasoning_tag(generation.prompt)),
        )
        return Chat(request, generation, answer, self._grammars.guide(output, answer))

    def _prepare_reading(self, body: Any) -> Reading:
        request = ReadRequest.read(body)
        path = self._exchange.path_of(request.file)
        self._model.check_hand_over()
        adapter = self._adapter_of(body)
        if request.messages is None:
            tokens = self._model.known(self._model.tokenizer(request.prompt)["input_ids"], "prompt")
        else:
            tokens = self._model.render(request.messages, request.described, adapter)
        generation = Generation(tokens, Sampling(), adapter=adapter)
        self._model.remaining_tokens(generation)
        return Reading(generation, path, request.space_fingerprint, self._model.adapters.digest_of(adapter))

    async def _prefill(self, reading: Reading, send: Send) -> None:
        loop = asyncio.get_running_loop()
        try:
            prompt = await asyncio.wrap_future(self._engine.read(reading.generation))
            try:
                adapter = reading.adapter_digest
                written = await loop.run_in_executor(
                    None, write_prompt, reading.path, prompt, reading.fingerprint, adapter
                )
            finally:
                self._engine.release(prompt)
        except BadPayload as problem:
            return await send_json(send, 422, _payload_error(problem))
        except Cancelled:
            raise
        except Exception as error:
            return await send_json(send, 500, _error(_message_of(error), "server_error"))
        await send_json(send, 200, written)

    async def _chat(self, chat: Chat, send: Send) -> None:
        await (self._stream if chat.request.stream else self._whole)(chat, send)

    async def _stream(self, chat: Chat, send: Send) -> None:
        include_usage = chat.request.include_usage
        chunk = _Chunks(chat.request.model, with_usage=include_usage)
        await send({"type": "http.response.start", "status": 200, "headers": SSE})

        async def send_event(value: Any) -> None:
            data = value if isinstance(value, bytes) else orjson.dumps(value)
            await send({"type": "http.response.body", "body": b"data: " + data + b"\n\n", "more_body": True})

        await send_event(chunk({"role": "assistant", "content": ""}))
        try:
            async for piece in self._pieces(chat):
                await send_event(chunk(_delta(piece)))
            await send_event(chunk({}, finish=_finish(chat)))
            if include_usage:
                await send_event(chunk.usage(_usage(chat.generation)))
            await send_event(b"[DONE]")
        except Cancelled:
            raise
        except Exception as error:
            await send_event(_error(_message_of(error), "server_error"))
        await send({"type": "http.response.body", "body": b""})

    async def _whole(self, chat: Chat, send: Send) -> None:
        try:
            pieces = [piece async for piece in self._pieces(chat)]
        except Cancelled:
            raise
        except Exception as error:
            return await send_json(send, 500, _error(_message_of(error), "server_error"))
        text = "".join(piece.text for piece in pieces)
        calls = gather([piece.tool_call for piece in pieces if piece.tool_call])
        message: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else ""), "refusal": None}
        reasoning = "".join(piece.reasoning for piece in pieces)
        if reasoning:
            message["reasoning_content"] = reasoning
        if calls:
            message["tool_calls"] = calls
        choice: dict[str, Any] = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(chat)}
        head: dict[str, Any] = _head("chat.completion", chat.request.model)
        if chat.request.with_ids:
            choice["token_ids"] = chat.written
            head["prompt_token_ids"] = chat.generation.prompt
        await send_json(send, 200, {**head, "choices": [choice], "usage": _usage(chat.generation)})

    async def _pieces(self, chat: Chat) -> AsyncIterator[Piece]:
        """Yields the response while the engine generates it."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[list[Piece] | None] = asyncio.Queue()
        answer = chat.answer
        shown = (*REASONING_TAGS, *(CALL_MARKS if answer.names else ()))
        words = Detokenizer(self._model.tokenizer, self._model.hidden_tokens(shown))

        def on_token(token: int) -> bool:
            """Runs on the engine's thread."""
            chat.written.append(token)
            pieces = answer.add(words.add(token))
            if pieces:
                loop.call_soon_threadsafe(queue.put_nowait, pieces)
            return not answer.stopped

        done = asyncio.wrap_future(self._engine.generate(chat.generation, on_token, chat.guide))
        done.add_done_callback(lambda _: queue.put_nowait(None))
        while (pieces := await queue.get()) is not None:
            for piece in pieces:
                yield piece
        await done
        for piece in (*answer.add(words.rest()), *answer.end()):
            yield piece


class _Chunks:
    """Formats the chunks of one stream, which share one id."""

    def __init__(self, model: str, *, with_usage: bool) -> None:
        self._head = _head("chat.completion.chunk", model)
        self._usage = {"usage": None} if with_usage else {}

    def __call__(self, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**self._head, "choices": [choice], **self._usage}

    def usage(self, usage: dict[str, int]) -> dict[str, Any]:
        return {**self._head, "choices": [], "usage": usage}


def _head(kind: str, model: str) -> dict[str, Any]:
    name = f"chatcmpl-{uuid.uuid4().hex}"
    return {"id": name, "object": kind, "created": int(time.time()), "model": model}


def _delta(piece: Piece) -> dict[str, Any]:
    if piece.tool_call:
        return {"tool_calls": [piece.tool_call]}
    return {"reasoning_content": piece.reasoning} if piece.reasoning else {"content": piece.text}


def _finish(chat: Chat) -> str:
    """A call that was cut off must not look complete, so its finish reason is not `tool_calls`."""
    return chat.generation.finish_reason if chat.answer.in_call or not chat.answer.tool_calls else "tool_calls"


def _usage(generation: Generation) -> dict[str, int]:
    prompt, completion = len(generation.prompt), generation.tokens
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _error(
    message: str, kind: str = "invalid_request_error", field: str | None = None, code: str | None = None
) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": field, "code": code}}


def _payload_error(problem: BadPayload) -> dict[str, Any]:
    return _error(str(problem), "invalid_payload_error", code=problem.failure)


def _metrics(engine: Engine) -> str:
    """Returns the engine's counts in Prometheus' text format; nodes limit their requests by them."""
    counts = {"hearth_llm_requests_running": engine.running, "hearth_llm_requests_waiting": engine.waiting}
    return "".join(f"# TYPE {name} gauge\n{name} {count}\n" for name, count in counts.items())


def _message_of(error: Exception) -> str:
    note_failure(error)
    return "the model failed on this request"


def main() -> None:
    """Loads the model, listens, and serves until SIGTERM."""
    parser = argparse.ArgumentParser(description="Serves one language model over an OpenAI-compatible HTTP API.")
    parser.add_argument("--model", type=Path, required=True, help="Hugging Face folder, or the parent of its `model`")
    parser.add_argument("--threads", type=int, default=1, help="threads of a forward pass")
    parser.add_argument("--concurrency", type=int, default=32, help="generations that a forward pass computes")
    parser.add_argument("--cache-mb", type=int, default=256, help="memory for the caches of all generations")
    parser.add_argument("--cache-per-weights-mb", type=float, default=0.25, help="MB added for each MB of weights")
    parser.add_argument("--exchange", help="folder for payloads; required for prefill and decode")
    server_arguments(parser)
    options = parser.parse_args()

    os.environ.setdefault("OMP_NUM_THREADS", str(options.threads))
    try:
        model = LanguageModel(find_model(options.model), options.threads)
    except Exception as error:
        end_if_gpu_is_lost(error)
        if is_fault_of_weights(error):
            refuse_weights(reason_of(error))
        sys.exit(f"The model in {options.model} cannot be served: {error}")
    exchange = Exchange(Path(options.exchange) if options.exchange else None)
    cache_bytes = (options.cache_mb << 20) + int(options.cache_per_weights_mb * model.weights_bytes)
    engine = Engine(model, options.concurrency, cache_bytes)
    serve(ChatApp(model, engine, exchange), options)


if __name__ == "__main__":
    main()
