"""Tool calls as JSON without closing tags: `{"name": ..., "parameters": {...}}` of Llama 3, `[TOOL_CALLS][{...}]` of Mistral."""

from __future__ import annotations

import re
from typing import Any

import orjson
from llm_calls import HEAD, ValueEnd, call_of, first_fragment

LIST_MARK = "[TOOL_CALLS]"
PYTHON_MARK = "<|python_tag|>"
BARE_MARKS = (LIST_MARK, PYTHON_MARK)
FIRST_KEYS = ('"name"', '"type"', '"arguments"', '"parameters"', '"function"')
OBJECT = re.compile(r"\s*\{\s*")
NAME = re.compile(r'"name"\s*:\s*"((?:[^"\\]|\\.)*)("?)')
KEYS = {"name", "type", "id", "arguments", "parameters"}


class BareReader:
    """
    Reads calls of known functions: one object, several in a row, or a list of them. What turns out to be something else
    is text, from where the last call ended.
    """

    def __init__(self, index: int, names: frozenset[str], mark: str = "", *, one_call: bool = False) -> None:
        self._index = index
        self._names = names
        self._one_call = one_call
        # A tag that no text of a model holds is not told as text.
        self._mark = "" if mark == PYTHON_MARK else mark
        self._object: _Object | None = None
        self._in_list: bool | None = None
        self._held = ""
        self.told = 0
        self.is_closed = False

    @property
    def in_call(self) -> bool:
        """Whether a call has been told and is not whole yet."""
        return self._object is not None and self._object.is_told

    @property
    def rest(self) -> str:
        """What is text, once the calls are over, behind `failed_mark`."""
        return (self._object.text if self._object else "") + self._held

    @property
    def failed_mark(self) -> str:
        """What opened the calls, where none came."""
        return "" if self.told else self._mark

    def add(self, text: str) -> list[dict[str, Any]]:
        """The fragments that can be told now."""
        self._held += text
        told: list[dict[str, Any]] = []
        while not self.is_closed and (self._read(told) if self._object else self._between()):
            pass
        return told

    def end(self) -> None:
        """Nothing more comes."""
        self.is_closed = not self.in_call
        if self.is_closed and self._object is None and not self._held.strip(" \n,;]"):
            self._held = ""

    def _read(self, told: list[dict[str, Any]]) -> bool:
        reader = self._object
        assert reader
        was_told = reader.is_told
        text, self._held = self._held, ""
        told += reader.add(text)
        self.told += reader.is_told and not was_told
        if reader.is_other:
            self.is_closed = True
        elif reader.is_whole:
            self._object, self._held = None, "" if self._one_call else reader.rest
            self.is_closed = self._one_call
            return True
        return False

    def _between(self) -> bool:
        text = self._held.lstrip()
        if not text:
            return False
        if text[0] == "{":
            self._in_list = bool(self._in_list)
            self._object = _Object(self._index + self.told, self._names)
            if self.told == 0 and self._held[0] != "{":
                # White space before what turns out to be text belongs to it.
                self._object.lead = self._held[: -len(text)]
                self._held = text
        elif text[0] == "[" and self._in_list is None:
            self._in_list = True
            self._mark += self._held[: len(self._held) - len(text) + 1]
            self._held = text[1:]
        elif self.told and text[0] in (",;" if self._in_list else ";"):
            self._held = text[1:]
        else:
            if self.told and self._in_list and text[0] == "]":
                self._held = text[1:]
            self.is_closed = True
        return not self.is_closed


class _Object:
    """One object that may be a call."""

    def __init__(self, index: int, names: frozenset[str]) -> None:
        self._index = index
        self._names = names
        self._text = ""
        self._outer, self._inner = ValueEnd(), ValueEnd()
        self._outer_at = self._inner_at = 0
        self.lead = ""
        self.is_told = False
        self.is_other = False

    @property
    def is_whole(self) -> bool:
        """Whether the object has ended."""
        return self._outer.found

    @property
    def text(self) -> str:
        """All of it as it was written."""
        return self.lead + self._text

    @property
    def rest(self) -> str:
        """What came behind it."""
        return self._text[self._outer_at :]

    def add(self, text: str) -> list[dict[str, Any]]:
        """The fragments that can be told now."""
        self._text += text
        if not self._outer.found:
            self._outer_at = self._outer.find(self._text, self._outer_at)
        told: list[dict[str, Any]] = []
        if not self.is_told:
            self._begin(told)
        if self.is_told and self._inner_at and not self._inner.found:
            begin, self._inner_at = self._inner_at, self._inner.find(self._text, self._inner_at)
            if self._inner_at > begin:
                arguments = self._text[begin : self._inner_at]
                told.append({"index": self._index, "function": {"arguments": arguments}})
        return told

    def _begin(self, told: list[dict[str, Any]]) -> None:
        head = HEAD.match(self._text)
        if head:
            name = orjson.loads(head[1])
            self.is_other = name not in self._names
            if not self.is_other:
                self._inner_at = head.end()
                self._tell(told, name, "")
        elif self._outer.found:
            call = call_of(self._text[: self._outer_at])
            self.is_other = not (call and call.name in self._names and call.keys <= KEYS and call.has_arguments)
            if call and not self.is_other:
                self._tell(told, call.name, call.arguments)
        else:
            self.is_other = not self._may_be_call()

    def _tell(self, told: list[dict[str, Any]], name: str, arguments: str) -> None:
        self.is_told = True
        told.append(first_fragment(self._index, name, arguments))

    def _may_be_call(self) -> bool:
        begin = OBJECT.match(self._text)
        if not begin:
            return True
        text = self._text[begin.end() :]
        named = NAME.match(text)
        if named:
            return any(name == named[1] if named[2] else name.startswith(named[1]) for name in self._names)
        return any(key.startswith(text) or text.startswith(key) for key in FIRST_KEYS)
