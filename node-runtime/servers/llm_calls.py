"""Tool calls in the text of a model, `{"name": ..., "arguments": {...}}` between tags, told in fragments as they come."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from typing import Any

import orjson

TOOL_OPEN = "<tool_call>"
TOOL_CLOSE = "</tool_call>"
HEAD = re.compile(r'\s*\{\s*(?:"type"\s*:\s*"function"\s*,\s*)?"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=\{)')


class CallReader:
    """Reads one call from behind its opening tag to behind its closing one."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._value = ValueEnd()
        # All that has come so far; what of it is not told yet begins at `_at`.
        self.text = ""
        self._at = 0
        self.is_told = False
        self.is_whole = False
        self.is_closed = False

    @property
    def rest(self) -> str:
        """What came behind the closing tag."""
        return self.text[self._at :]

    def add(self, text: str) -> list[dict[str, Any]]:
        """The fragments that can be told now."""
        self.text += text
        told: list[dict[str, Any]] = []
        if not self.is_told:
            self._begin(told)
        if self.is_told and not self.is_whole:
            begin, self._at = self._at, self._value.find(self.text, self._at)
            self.is_whole = self._value.found
            if self._at > begin:
                told.append({"index": self._index, "function": {"arguments": self.text[begin : self._at]}})
        if self.is_whole and not self.is_closed:
            self._close()
        return told

    def end(self) -> list[dict[str, Any]]:
        """What can still be told when nothing more comes."""
        return [] if self.is_told else self._read_whole(self.text)

    def _begin(self, told: list[dict[str, Any]]) -> None:
        head = HEAD.match(self.text)
        if head:
            self._at = head.end()
            told.append(self._first(orjson.loads(head[1]), ""))
            return
        # In another order, or with arguments as a text, it is told once it is there.
        inside, close, _ = self.text.partition(TOOL_CLOSE)
        if close:
            told += self._read_whole(inside)
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
        self.is_told = True
        return first_fragment(self._index, name, arguments)


@dataclass
class Call:
    """One call, read as a whole."""

    name: str
    arguments: str
    has_arguments: bool
    keys: frozenset[str]


def call_of(text: str) -> Call | None:
    """A call out of its JSON; None where it is none."""
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
    """The fragment with which a call begins."""
    function = {"name": name, "arguments": arguments}
    return {"index": index, "id": f"call_{uuid.uuid4().hex[:24]}", "type": "function", "function": function}


class ValueEnd:
    """Finds where an object of JSON ends, over as many pieces as it comes in."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_text = False
        self._escaped = False
        self.found = False

    def find(self, text: str, start: int) -> int:
        """The place behind the object, or the end of `text` if it goes on."""
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
    """Whole calls out of their fragments."""
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
