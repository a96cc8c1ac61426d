"""Tool calls in a model's text, `{"name": ..., "arguments": {...}}` between tags, streamed in fragments."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from typing import Any

import orjson

TOOL_OPEN = "<tool_call>"
TOOL_CLOSE = "</tool_call>"
HEAD = re.compile(
    r'\s*\{\s*(?:"type"\s*:\s*"function"\s*,\s*)?"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=\{)'
)


class CallReader:
    """Reads one call, from its opening tag to its closing tag."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._value = ValueEnd()
        # The text so far; the part from `_at` on has not been streamed.
        self.text = ""
        self._at = 0
        self.is_streamed = False
        self.is_whole = False
        self.is_closed = False

    @property
    def rest(self) -> str:
        """The text after the closing tag."""
        return self.text[self._at :]

    @property
    def may_continue(self) -> bool:
        """True while the text so far may be an incomplete call: neither a complete one nor other text."""
        begun = self.text.strip()
        if not begun:
            return True
        value = ValueEnd()
        value.find(begun, 0)
        return begun.startswith("{") and not value.found

    def add(self, text: str) -> list[dict[str, Any]]:
        """Returns the fragments that are ready."""
        self.text += text
        fragments: list[dict[str, Any]] = []
        if not self.is_streamed:
            self._begin(fragments)
        if self.is_streamed and not self.is_whole:
            begin, self._at = self._at, self._value.find(self.text, self._at)
            self.is_whole = self._value.found
            if self._at > begin:
                fragments.append({"index": self._index, "function": {"arguments": self.text[begin : self._at]}})
        if self.is_whole and not self.is_closed:
            self._close()
        return fragments

    def end(self) -> list[dict[str, Any]]:
        """Returns the last fragments when the text ends."""
        return [] if self.is_streamed else self._read_whole(self.text)

    def _begin(self, fragments: list[dict[str, Any]]) -> None:
        head = HEAD.match(self.text)
        if head:
            self._at = head.end()
            fragments.append(self._first(orjson.loads(head[1]), ""))
            return
        # If the call's members are in a different order, or its arguments are a string, it is streamed once
        # it is complete.
        inside, close, _ = self.text.partition(TOOL_CLOSE)
        if close:
            fragments += self._read_whole(inside)
            self.is_closed, self._at = True, len(inside) + len(close)

    def _close(self) -> None:
        found = self.text.find(TOOL_CLOSE, self._at)
        if found >= 0:
            self.is_closed, self._at = True, found + len(TOOL_CLOSE)

    def _read_whole(self, text: str) -> list[dict[str, Any]]:
        call = call_of(text)
        if call is None:
            return []
        self.is_whole = True
        return [self._first(call.name, call.arguments)]

    def _first(self, name: str, arguments: str) -> dict[str, Any]:
        self.is_streamed = True
        return first_fragment(self._index, name, arguments)


@dataclass
class Call:
    """A complete call."""

    name: str
    arguments: str
    has_arguments: bool
    keys: frozenset[str]


def call_of(text: str) -> Call | None:
    """Parses a call from its JSON; None if it isn't a call."""
    try:
        call = orjson.loads(text.strip())
        call = call["function"] if isinstance(call.get("function"), dict) else call
        name, arguments = call["name"], call.get("arguments", call.get("parameters"))
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return None
    if not isinstance(name, str):
        return None
    if not isinstance(arguments, str):
        has_arguments, written = isinstance(arguments, dict), orjson.dumps(arguments or {}).decode()
    else:
        has_arguments, written = arguments.lstrip().startswith("{"), arguments
    return Call(name, written, has_arguments, frozenset(call))


def first_fragment(index: int, name: str, arguments: str) -> dict[str, Any]:
    """Returns the first fragment of a call."""
    function = {"name": name, "arguments": arguments}
    return {"index": index, "id": f"call_{uuid.uuid4().hex[:24]}", "type": "function", "function": function}


class ValueEnd:
    """Finds the end of a JSON object that arrives in several pieces."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_text = False
        self._escaped = False
        self.found = False

    def find(self, text: str, start: int) -> int:
        """Returns the position after the object, or the end of `text` while
        the object is incomplete."""
        for at in range(start, len(text)):
            letter = text[at]
            if self._escaped:
                self._escaped = False
            elif self._in_text:
                self._escaped = letter == "\\"
                self._in_text = letter != '"'
            elif letter == '"':
                self._in_text = True
            elif letter in "{[":
                self._depth += 1
            elif letter in "}]":
                self._depth -= 1
                if self._depth == 0:
                    self.found = True
                    return at + 1
        return len(text)


def gather(fragments: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Assembles complete calls from their fragments."""
    calls: dict[int, dict[str, Any]] = {}
    for fragment in fragments:
        call = calls.get(fragment["index"])
        if call is None:
            calls[fragment["index"]] = {
                "id": fragment["id"],
                "type": fragment["type"],
                "function": dict(fragment["function"]),
            }
        else:
            call["function"]["arguments"] += fragment["function"]["arguments"]
    return list(calls.values())
