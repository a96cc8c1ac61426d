"""From tokens to what a caller sees: whole characters, stop texts, tool calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from llm_calls import TOOL_OPEN, CallReader

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
    """Something for the caller: text, or a fragment of a tool call."""

    text: str = ""
    tool_call: dict[str, Any] | None = None


@dataclass
class Answer:
    """Cuts the text of a model at its stop texts and takes tool calls out of it."""

    stops: tuple[str, ...] = ()
    with_tools: bool = False
    one_call: bool = False
    stopped: bool = False
    tool_calls: int = 0
    _held: str = field(default="", repr=False)
    _call: CallReader | None = field(default=None, repr=False)

    @property
    def in_call(self) -> bool:
        """Whether a tool call has begun and not ended."""
        return self._call is not None

    @property
    def unread(self) -> str:
        """What the model has written of the call that it is in."""
        return self._call.text if self._call else ""

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
        if self.stopped:
            return []
        call, self._call = self._call, None
        if call is None:
            return [Piece(text=rest)] if rest else []
        told = call.end()
        self.tool_calls += len(told)
        if call.is_told and not call.is_whole:
            # Cut off: the answer does not end with a call that can be followed.
            self._call = call
        return _fragments(told) if call.is_told else [Piece(text=TOOL_OPEN + call.text)]

    def _step(self, pieces: list[Piece]) -> bool:
        if self._call:
            return self._step_in_call(self._call, pieces)
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
            self._held, self._call = self._held[len(TOOL_OPEN) :], CallReader(self.tool_calls)
            return True
        self.stopped, self._held = True, ""
        return False

    def _step_in_call(self, call: CallReader, pieces: list[Piece]) -> bool:
        text, self._held = self._held, ""
        was_told = call.is_told
        pieces += _fragments(call.add(text))
        self.tool_calls += call.is_told and not was_told
        if not call.is_closed:
            return False
        if not call.is_told:
            pieces.append(Piece(text=TOOL_OPEN + call.text[: -len(call.rest) or None]))
        self._held, self._call = call.rest, None
        self.stopped = self.one_call and call.is_told
        return not self.stopped


def _fragments(told: list[dict[str, Any]]) -> list[Piece]:
    return [Piece(tool_call=fragment) for fragment in told]


def _open_end(text: str, marks: tuple[str, ...]) -> int:
    """How many characters at the end may be the beginning of a mark."""
    longest = max(map(len, marks), default=1) - 1
    for length in range(min(longest, len(text)), 0, -1):
        if any(mark.startswith(text[-length:]) for mark in marks):
            return length
    return 0
