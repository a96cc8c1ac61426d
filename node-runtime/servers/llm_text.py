"""From tokens to what a caller sees: whole characters, stop texts, tool calls."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

import orjson

TOOL_OPEN = "<tool_call>"
TOOL_CLOSE = "</tool_call>"
# Bytes that make no character after so many tokens never will.
LONGEST_CHARACTER = 6


class Detokenizer:
    """Decodes token by token and holds back what is not a whole character yet."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._from = 0
        self._told = 0

    def add(self, token: int) -> str:
        """The text that this token completes."""
        self._ids.append(token)
        before = self._decode(self._ids[self._from : self._told])
        now = self._decode(self._ids[self._from :])
        held = len(self._ids) - self._told
        if len(now) <= len(before) or (now.endswith("\ufffd") and held < LONGEST_CHARACTER):
            return ""
        self._from, self._told = self._told, len(self._ids)
        return now[len(before) :]

    def rest(self) -> str:
        """What is still held when generation has ended."""
        before = self._decode(self._ids[self._from : self._told])
        return self._decode(self._ids[self._from :])[len(before) :]

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


@dataclass
class Piece:
    """Something for the caller: text, or a whole tool call."""

    text: str = ""
    tool_call: dict[str, Any] | None = None


@dataclass
class Answer:
    """Cuts the text of a model at its stop texts and takes tool calls out of it."""

    stops: tuple[str, ...] = ()
    with_tools: bool = False
    stopped: bool = False
    tool_calls: int = 0
    _held: str = field(default="", repr=False)
    _in_call: bool = field(default=False, repr=False)

    def add(self, text: str) -> list[Piece]:
        """What can be told now; the rest may be the beginning of a stop text or of a tool call."""
        self._held += text
        pieces: list[Piece] = []
        while not self.stopped and self._step(pieces):
            pass
        return pieces

    def end(self) -> list[Piece]:
        """What was held back and turned out to be text."""
        rest, self._held = self._held, ""
        if self._in_call and not self.stopped:
            call = self._call(rest)
            return [Piece(tool_call=call)] if call else [Piece(text=TOOL_OPEN + rest)]
        return [Piece(text=rest)] if rest and not self.stopped else []

    def _step(self, pieces: list[Piece]) -> bool:
        if self._in_call:
            inside, close, after = self._held.partition(TOOL_CLOSE)
            if not close:
                return False
            call = self._call(inside)
            pieces.append(Piece(tool_call=call) if call else Piece(text=TOOL_OPEN + inside + TOOL_CLOSE))
            self._held, self._in_call = after, False
            return True
        marks = (*self.stops, TOOL_OPEN) if self.with_tools else self.stops
        found = min((at for at in map(self._held.find, marks) if at >= 0), default=-1)
        upto = found if found >= 0 else len(self._held) - _open_end(self._held, marks)
        text, self._held = self._held[:upto], self._held[upto:]
        # Around tool calls models write blank lines that belong to nobody.
        if text and not (self.with_tools and not text.strip() and (found >= 0 or self.tool_calls)):
            pieces.append(Piece(text=text))
        if found < 0:
            return False
        if self.with_tools and self._held.startswith(TOOL_OPEN):
            self._held, self._in_call = self._held[len(TOOL_OPEN) :], True
            return True
        self.stopped, self._held = True, ""
        return False

    def _call(self, text: str) -> dict[str, Any] | None:
        try:
            call = orjson.loads(text.strip())
            name, arguments = call["name"], call.get("arguments", call.get("parameters", {}))
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
            return None
        arguments = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
        index, self.tool_calls = self.tool_calls, self.tool_calls + 1
        function = {"name": name, "arguments": arguments}
        return {"index": index, "id": f"call_{uuid.uuid4().hex[:24]}", "type": "function", "function": function}


def _open_end(text: str, marks: tuple[str, ...]) -> int:
    """How many characters at the end may be the beginning of a mark."""
    longest = max(map(len, marks), default=1) - 1
    for length in range(min(longest, len(text)), 0, -1):
        if any(mark.startswith(text[-length:]) for mark in marks):
            return length
    return 0
