"""Tool calls as JSON without closing tags: Llama 3's `{"name": ..., "parameters": {...}}` and Mistral's
`[TOOL_CALLS][{...}]`.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from .tool_calls import HEAD, ValueEnd, call_of, first_fragment

LIST_MARK = "[TOOL_CALLS]"
PYTHON_MARK = "<|python_tag|>"
RAW_CALL_MARKS = (LIST_MARK, PYTHON_MARK)
FIRST_KEYS = ('"name"', '"type"', '"arguments"', '"parameters"', '"function"')
OBJECT = re.compile(r"\s*\{\s*")
NAME = re.compile(r'"name"\s*:\s*"((?:[^"\\]|\\.)*)("?)')
KEYS = {"name", "type", "id", "arguments", "parameters"}


class RawCallReader:
    """Reads calls of known functions: one object, several in a row, or a list of them. Anything after the
    last call is text.
    """

    def __init__(self, index: int, names: frozenset[str], mark: str = "", *, one_call: bool = False) -> None:
        self._index = index
        self._names = names
        self._one_call = one_call
        # A tag that is never part of a model's text is dropped, not passed on as text.
        self._mark = "" if mark == PYTHON_MARK else mark
        self._object: _Object | None = None
        self._in_list: bool | None = None
        self._held = ""
        self.streamed = 0
        self.is_closed = False

    @property
    def in_call(self) -> bool:
        """True while part of a call has been streamed."""
        return self._object is not None and self._object.is_streamed

    @property
    def rest(self) -> str:
        """The text after `failed_mark`, once the calls are over."""
        return (self._object.text if self._object else "") + self._held

    @property
    def failed_mark(self) -> str:
        """The mark that opened the calls, if no call followed it."""
        return "" if self.streamed else self._mark

    def add(self, text: str) -> list[dict[str, Any]]:
        """Returns the fragments that are ready."""
        self._held += text
        fragments: list[dict[str, Any]] = []
        while not self.is_closed and (self._read(fragments) if self._object else self._between()):
            pass
        return fragments

    def end(self) -> None:
        """Ends the text."""
        self.is_closed = not self.in_call
        if self.is_closed and self._object is None and not self._held.strip(" \n,;]"):
            self._held = ""

    def _read(self, fragments: list[dict[str, Any]]) -> bool:
        reader = self._object
        assert reader
        was_streamed = reader.is_streamed
        text, self._held = self._held, ""
        fragments += reader.add(text)
        self.streamed += reader.is_streamed and not was_streamed
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
            self._object = _Object(self._index + self.streamed, self._names)
            if self.streamed == 0 and self._held[0] != "{":
                # Whitespace before anything that turns out to be text is part of that text.
                self._object.lead = self._held[: -len(text)]
                self._held = text
        elif text[0] == "[" and self._in_list is None:
            self._in_list = True
            self._mark += self._held[: len(self._held) - len(text) + 1]
            self._held = text[1:]
        elif self.streamed and text[0] in (",;" if self._in_list else ";"):
            self._held = text[1:]
        else:
            if self.streamed and self._in_list and text[0] == "]":
                self._held = text[1:]
            self.is_closed = True
        return not self.is_closed


class _Object:
    """An object that may be a call."""

    def __init__(self, index: int, names: frozenset[str]) -> None:
        self._index = index
        self._names = names
        self._text = ""
        self._outer, self._inner = ValueEnd(), ValueEnd()
        self._outer_at = self._inner_at = 0
        self.lead = ""
        self.is_streamed = False
        self.is_other = False

    @property
    def is_whole(self) -> bool:
        """True when the object is complete."""
        return self._outer.found

    @property
    def text(self) -> str:
        """The object as the model wrote it."""
        return self.lead + self._text

    @property
    def rest(self) -> str:
        """The text after the object."""
        return self._text[self._outer_at :]

    def add(self, text: str) -> list[dict[str, Any]]:
        """Returns the fragments that are ready."""
        self._text += text
        if not self._outer.found:
            self._outer_at = self._outer.find(self._text, self._outer_at)
        fragments: list[dict[str, Any]] = []
        if not self.is_streamed:
            self._begin(fragments)
        if self.is_streamed and self._inner_at and not self._inner.found:
            begin, self._inner_at = self._inner_at, self._inner.find(self._text, self._inner_at)
            if self._inner_at > begin:
                arguments = self._text[begin : self._inner_at]
                fragments.append({"index": self._index, "function": {"arguments": arguments}})
        return fragments

    def _begin(self, fragments: list[dict[str, Any]]) -> None:
        head = HEAD.match(self._text)
        if head:
            name = orjson.loads(head[1])
            self.is_other = name not in self._names
            if not self.is_other:
                self._inner_at = head.end()
                self._stream_start(fragments, name, "")
        elif self._outer.found:
            call = call_of(self._text[: self._outer_at])
            self.is_other = not (call and call.name in self._names and call.keys <= KEYS and call.has_arguments)
            if call and not self.is_other:
                self._stream_start(fragments, call.name, call.arguments)
        else:
            self.is_other = not self._may_be_call()

    def _stream_start(self, fragments: list[dict[str, Any]], name: str, arguments: str) -> None:
        self.is_streamed = True
        fragments.append(first_fragment(self._index, name, arguments))

    def _may_be_call(self) -> bool:
        begin = OBJECT.match(self._text)
        if not begin:
            return True
        text = self._text[begin.end() :]
        named = NAME.match(text)
        if named:
            return any(name == named[1] if named[2] else name.startswith(named[1]) for name in self._names)
        return any(key.startswith(text) or text.startswith(key) for key in FIRST_KEYS)
