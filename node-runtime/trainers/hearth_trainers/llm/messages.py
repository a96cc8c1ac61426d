"""Reads the messages of chat rows in the common formats: OpenAI's and ShareGPT's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from ..errors import JobError
from ..json_values import is_list, is_object
from .rows import Row

_SHAREGPT_ROLES = {
    "human": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "claude": "assistant",
    "bot": "assistant",
    "model": "assistant",
    "function_call": "call",
    "tool_call": "call",
    "observation": "tool",
    "function_response": "tool",
    "tool_response": "tool",
    "function": "tool",
}
_ROLES = ("system", "user", "assistant", "tool")
_TEXT_PARTS = ("text", "input_text", "output_text")
_PASSED = ("name", "tool_call_id")
# The members that contain a message's reasoning: in vLLM, in GPT-OSS and TRL, and in OpenRouter. A template
# reads one of them.
REASONING_MEMBERS = ("reasoning_content", "thinking", "reasoning")
# Columns of a chat row; others are left out.
CHAT_COLUMNS = ("messages", "conversations", "tools", "functions", "system", "parallel_tool_calls")


@dataclass(frozen=True)
class Conversation:
    """A row's messages and tools as chat templates expect them."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None
    # The message members that are not learned, such as `refusal` and `weight`.
    unused: frozenset[str]
    # 1 if the first message comes from the row's column `system`.
    inserted: int
    # True if the messages have a different system message, so that the column is left out.
    unused_system: bool

    @property
    def has_calls(self) -> bool:
        """True if a message calls tools."""
        return any("tool_calls" in message for message in self.messages)


def read_conversation(row: Row, number: int, template: str) -> Conversation:
    """Reads `messages` of `{role, content}`, or `conversations` of `{from, value}`. Roles that this reader
    does not know are rejected unless the template names them.
    """
    column = "conversations" if row.get("messages") is None else "messages"
    turns = _parsed(row.get(column))
    if not is_list(turns):
        raise _bad(number, column, "is missing" if turns is None else "is not a list of messages")
    if not turns:
        raise _bad(number, column, "has no messages")
    messages: list[dict[str, Any]] = []
    unused: set[str] = set()
    for place, turn in enumerate(turns, 1):
        message, others = _message(
            turn, template, lambda problem, place=place: _bad(number, column, f"message {place} {problem}")
        )
        messages.append(message)
        unused |= others
    system = row.get("system")
    if system is not None and not isinstance(system, str):
        raise _bad(number, "system", "is not text")
    system = (system or "").strip()
    has_own = messages[0]["role"] == "system"
    if system and not has_own:
        messages.insert(0, {"role": "system", "content": row["system"]})
    unused_system = bool(system) and has_own and messages[0]["content"].strip() != system
    return Conversation(
        messages, _tools(row, number), frozenset(unused), int(bool(system) and not has_own), unused_system
    )


def _message(turn: Any, template: str, refuse: Callable[[str], JobError]) -> tuple[dict[str, Any], set[str]]:
    """Returns the message as templates expect it, and the names of the members that it leaves out."""
    if not is_object(turn):
        raise refuse("is not an object")
    is_sharegpt = turn.get("from") is not None
    names = ("from", "value") if is_sharegpt else ("role", "content")
    written, content = turn.get(names[0]), turn.get(names[1])
    if not isinstance(written, str):
        raise refuse(f"has no {names[0]}")
    role = _role(written, template)
    if role is None:
        raise refuse(f"has the unknown {names[0]} '{written[:60]}'; use one of {', '.join(_ROLES)}")
    passed = {name: turn[name] for name in _PASSED if isinstance(turn.get(name), str)}
    reasoning = next((turn[name] for name in REASONING_MEMBERS if isinstance(turn.get(name), str) and turn[name]), None)
    used = {*names, *passed, *(name for name in REASONING_MEMBERS if turn.get(name) == reasoning)}
    if reasoning:
        passed |= dict.fromkeys(REASONING_MEMBERS, reasoning)
    if role == "call":
        message: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": _calls(_parsed(content), refuse)}
    else:
        message = {"role": role, "content": _content(content, names[1], refuse)}
        member = "tool_calls" if turn.get("tool_calls") else "function_call"
        used.add(member)
        if turn.get(member):
            message["tool_calls"] = _calls(turn[member], refuse)
        elif content is None:
            raise refuse(f"has no {names[1]} and no tool calls" if role == "assistant" else f"has no {names[1]}")
    return message | passed, {name for name, value in turn.items() if name not in used and _says_something(name, value)}


def _says_something(name: str, value: Any) -> bool:
    """Returns whether leaving out a message member loses anything. A weight of 1 is the default."""
    return value not in (None, "", [], {}) and (name, value) != ("weight", 1)


def _role(written: str, template: str) -> str | None:
    role = written.strip().lower()
    if role == "developer" and "developer" not in template:
        return "system"
    role = _SHAREGPT_ROLES.get(role, role)
    is_named = f"'{written}'" in template or f'"{written}"' in template
    return role if role in (*_ROLES, "call") else written if is_named else None


def _content(content: Any, name: str, refuse: Callable[[str], JobError]) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not is_list(content):
        raise refuse(f"has a {name} of type {type(content).__name__}; it must be a string or a list of parts")
    texts: list[str] = []
    for part in content:
        kind = part.get("type", "text") if is_object(part) else "text"
        if kind not in _TEXT_PARTS:
            raise refuse(f"has a part of type {str(kind)[:40]}; a language model learns from text only")
        text = part if isinstance(part, str) else part.get("text") if is_object(part) else None
        if not isinstance(text, str):
            raise refuse("has a part without text")
        texts.append(text)
    return "".join(texts)


def _calls(calls: Any, refuse: Callable[[str], JobError]) -> list[dict[str, Any]]:
    """Returns tool calls with their arguments as objects, which templates expect."""
    found: list[dict[str, Any]] = []
    for call in calls if is_list(calls) else [calls]:
        function = call.get("function", call) if is_object(call) else None
        if not is_object(function) or not isinstance(function.get("name"), str):
            raise refuse("has a tool call without the name of its function")
        arguments = _parsed(function.get("arguments", function.get("parameters")) or {})
        if not is_object(arguments):
            raise refuse(f"calls {function['name'][:60]} with arguments that are not a JSON object")
        named = {"id": call["id"]} if isinstance(call.get("id"), str) else {}
        found.append({**named, "type": "function", "function": {"name": function["name"], "arguments": arguments}})
    if not found:
        raise refuse("has an empty list of tool calls")
    return found


def _tools(row: Row, number: int) -> list[dict[str, Any]] | None:
    column = "functions" if row.get("tools") is None else "tools"
    tools = _parsed(row.get(column))
    if tools is None or tools == "" or tools == []:
        return None
    if not is_list(tools) or not all(is_object(tool) for tool in tools):
        raise _bad(number, column, "is not a list of tools")
    return [tool if "function" in tool else {"type": "function", "function": tool} for tool in tools]


def _parsed(value: Any) -> Any:
    """Parses JSON in a string, as in CSV files and ShareGPT data; other strings stay unchanged."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return orjson.loads(value)
        except ValueError:
            return value
    return value


def _bad(number: int, column: str, problem: str) -> JobError:
    return JobError(f"Row {number}: {column} {problem}.", code="bad_data", column=column, row=number)
