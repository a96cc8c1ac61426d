"""Parses a chat request from OpenAI's clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from json_values import is_list, is_object

from .options import Sampling, Unusable
from .output import Output

MAX_STOPS = 16
# The model name for requests that don't name one.
SERVED_NAME = "model"


@dataclass
class ChatRequest:
    """The parsed request. Fields that this server does not know are ignored, as everywhere in the
    OpenAI-compatible API.
    """

    # The model name from the request, which the response repeats.
    model: str
    messages: list[dict[str, Any]]
    # The token ids of a prompt that replaces the messages.
    tokens: list[int] | None
    # True if the response must include its token ids and the prompt's.
    with_ids: bool
    output: Output
    sampling: Sampling
    stops: tuple[str, ...]
    stream: bool
    include_usage: bool

    @classmethod
    def read(cls, body: Any, *, with_messages: bool = True) -> ChatRequest:
        """Checks the fields that are used. A prompt that was prefilled elsewhere needs no messages."""
        if not is_object(body):
            raise Unusable("the body must be an object")
        if body.get("n") not in (None, 1):
            raise Unusable("n must be 1: this model returns one answer", "n")
        if body.get("logprobs") not in (None, False) or body.get("top_logprobs") not in (None, 0):
            field = "top_logprobs" if body.get("logprobs") in (None, False) else "logprobs"
            raise Unusable(f"{field} is not supported: this model returns no token probabilities", field)
        stream_options: Any = body.get("stream_options") or {}
        model = body.get("model")
        tokens = _tokens(body) if with_messages else None
        return cls(
            model=model if isinstance(model, str) and model else SERVED_NAME,
            messages=_messages(body.get("messages")) if with_messages and tokens is None else [],
            tokens=tokens,
            with_ids=bool(body.get("return_token_ids")),
            output=Output.read(body),
            sampling=_sampling(body),
            stops=_stops(body.get("stop")),
            stream=bool(body.get("stream")),
            include_usage=bool(stream_options.get("include_usage")) if is_object(stream_options) else False,
        )


@dataclass
class ReadRequest:
    """A prompt to prefill for another server: messages, or plain text."""

    messages: list[dict[str, Any]] | None
    prompt: str
    # The tools for the chat template.
    described: list[dict[str, Any]] | None
    file: Any
    space_fingerprint: str

    @classmethod
    def read(cls, body: Any) -> ReadRequest:
        """Checks the fields that are used."""
        if not is_object(body):
            raise Unusable("the body must be an object")
        prompt, fingerprint = body.get("prompt"), body.get("space_fingerprint")
        if not isinstance(fingerprint, str) or not fingerprint:
            raise Unusable("space_fingerprint must be a string", "space_fingerprint")
        text = prompt if isinstance(prompt, str) else ""
        return cls(
            messages=None if text else _messages(body.get("messages")),
            prompt=text,
            described=Output.read(body).described,
            file=body.get("file"),
            space_fingerprint=fingerprint,
        )


def _tokens(body: dict[str, Any]) -> list[int] | None:
    """Returns a prompt given as token ids. A text prompt is ignored, because chats have never used it."""
    prompt = body.get("prompt")
    if not is_list(prompt):
        return None
    if body.get("messages") is not None:
        raise Unusable("prompt and messages can't be used together", "prompt")
    if not prompt or not all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in prompt):
        raise Unusable("prompt must be a non-empty list of token ids, integers of at least 0", "prompt")
    return prompt


def _messages(messages: Any) -> list[dict[str, Any]]:
    if not is_list(messages) or not messages:
        raise Unusable("messages must be a list with at least one message", "messages")
    return [_message(number, message) for number, message in enumerate(messages)]


def _message(number: int, message: Any) -> dict[str, Any]:
    if not is_object(message) or not isinstance(message.get("role"), str):
        raise Unusable(f"messages[{number}] must be an object with a role", f"messages[{number}].role")
    role = "system" if message["role"] == "developer" else message["role"]
    read = {**message, "role": role, "content": _text(number, message.get("content"))}
    if is_list(message.get("tool_calls")):
        read["tool_calls"] = [_call(call) for call in message["tool_calls"]]
    return read


def _text(number: int, content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not is_list(content):
        raise Unusable(f"messages[{number}].content must be a string or a list of parts", f"messages[{number}].content")
    for part in content:
        kind = part.get("type") if is_object(part) else type(part).__name__
        if kind != "text":
            at = f"messages[{number}].content"
            raise Unusable(f"{at} has a part of type {kind}; this model reads text only", at)
    return "".join(str(part.get("text", "")) for part in content)


def _call(call: Any) -> Any:
    """Templates expect arguments as an object; callers send them as a JSON string."""
    try:
        function = call["function"]
        return {**call, "function": {**function, "arguments": orjson.loads(function["arguments"])}}
    except (KeyError, TypeError, orjson.JSONDecodeError):
        return call


def _sampling(body: dict[str, Any]) -> Sampling:
    name = "max_tokens" if body.get("max_completion_tokens") is None else "max_completion_tokens"
    return Sampling(
        max_tokens=_number(name, body.get(name), 1, 1 << 31, whole=True),
        temperature=_number("temperature", body.get("temperature"), 0, 2),
        top_p=_number("top_p", body.get("top_p"), 0, 1),
        top_k=_number("top_k", body.get("top_k"), -1, 1 << 31, whole=True),
        presence_penalty=_number("presence_penalty", body.get("presence_penalty"), -2, 2) or 0.0,
        frequency_penalty=_number("frequency_penalty", body.get("frequency_penalty"), -2, 2) or 0.0,
        seed=_number("seed", body.get("seed"), -(1 << 63), (1 << 64) - 1, whole=True),
    )


def _number(name: str, value: Any, lowest: float, highest: float, *, whole: bool = False) -> Any:
    if value is None:
        return None
    is_number = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    if not is_number or not lowest <= value <= highest:
        kind = "a whole number" if whole else "a number"
        raise Unusable(f"{name} must be {kind} from {lowest} to {highest}", name)
    return value


def _stops(stop: Any) -> tuple[str, ...]:
    stops = [stop] if isinstance(stop, str) else stop or []
    if not is_list(stops) or len(stops) > MAX_STOPS or not all(isinstance(one, str) for one in stops):
        raise Unusable(f"stop must be a string or a list of at most {MAX_STOPS} strings", "stop")
    return tuple(one for one in stops if one)
