"""Turns tokens into output: complete characters, cut at stop sequences, with tool calls extracted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .raw_tool_calls import RAW_CALL_MARKS, RawCallReader
from .reasoning import MAX_LEADING_SPACE, ReasoningParser, open_end
from .tool_calls import TOOL_OPEN, CallReader

# The marks that open a tool call in a model's text.
CALL_MARKS = (TOOL_OPEN, *RAW_CALL_MARKS)

# Bytes that don't form a character after this many tokens never will.
MAX_CHARACTER = 6


class Detokenizer:
    """Decodes token by token and holds back incomplete characters."""

    def __init__(self, tokenizer: Any, hidden: frozenset[int] = frozenset()) -> None:
        self._tokenizer = tokenizer
        # Special tokens, which are not text.
        self._hidden = hidden
        self._ids: list[int] = []
        self._from = 0
        self._decoded = 0

    def add(self, token: int) -> str:
        """Returns the text that this token completes."""
        self._ids.append(token)
        before = self._decode(self._ids[self._from : self._decoded])
        now = self._decode(self._ids[self._from :])
        held = len(self._ids) - self._decoded
        if len(now) <= len(before) or (now.endswith("\ufffd") and held < MAX_CHARACTER):
            return ""
        self._from, self._decoded = self._decoded, len(self._ids)
        return now[len(before) :]

    def rest(self) -> str:
        """Returns the text that is still held back when generation ends."""
        before = self._decode(self._ids[self._from : self._decoded])
        return self._decode(self._ids[self._from :])[len(before) :]

    def _decode(self, ids: list[int]) -> str:
        shown = [token for token in ids if token not in self._hidden]
        return self._tokenizer.decode(shown, skip_special_tokens=False, clean_up_tokenization_spaces=False)


@dataclass
class Piece:
    """A piece of output: text, a part of a model's reasoning, or a fragment of a tool call."""

    text: str = ""
    reasoning: str = ""
    tool_call: dict[str, Any] | None = None


@dataclass
class Answer:
    """Extracts the reasoning and the tool calls from a model's text, and cuts the rest at its stop sequences."""

    stops: tuple[str, ...] = ()
    # The functions that may be called.
    names: frozenset[str] = frozenset()
    one_call: bool = False
    # True if a response that is only the JSON of a call counts as that call.
    raw_tool_calls: bool = True
    reasoning: ReasoningParser = field(default_factory=ReasoningParser)
    stopped: bool = False
    tool_calls: int = 0
    _held: str = field(default="", repr=False)
    _call: CallReader | RawCallReader | None = field(default=None, repr=False)
    # True until the first text of the response is passed on.
    _is_fresh: bool = field(default=True, repr=False)

    @property
    def in_call(self) -> bool:
        """True while a tool call has begun but not ended."""
        return self.in_tagged_call or (isinstance(self._call, RawCallReader) and self._call.in_call)

    @property
    def in_tagged_call(self) -> bool:
        """True while a tool call between tags has begun but not ended."""
        return isinstance(self._call, CallReader)

    @property
    def unread(self) -> str:
        """The text so far of a tagged call that has not ended."""
        return self._call.text if isinstance(self._call, CallReader) else ""

    def add(self, text: str) -> list[Piece]:
        """Returns the pieces that are ready; the rest may be the start of a stop sequence or a tool call."""
        reasoning, text = self.reasoning.add(text)
        pieces = [Piece(reasoning=reasoning)] if reasoning else []
        self._take(text, pieces)
        return pieces

    def end(self) -> list[Piece]:
        """Ends the response and returns the text that was held back."""
        reasoning, text = self.reasoning.end()
        pieces = [Piece(reasoning=reasoning)] if reasoning else []
        if text:
            self._take(text, pieces)
        if isinstance(self._call, RawCallReader):
            self._call.end()
            if self._call.is_closed:
                self._leave_raw_calls(self._call, pieces)
                self._take("", pieces)
        rest, self._held = self._held, ""
        if self.stopped:
            return pieces
        call = self._call
        if not isinstance(call, CallReader):
            return [*pieces, Piece(text=rest)] if rest and not self._is_padding(rest) else pieces
        self._call = None
        fragments = call.end()
        self.tool_calls += len(fragments)
        if not call.is_whole and (call.is_streamed or call.may_continue):
            # The call was cut off. Don't return its beginning as text, and don't let the response look as if it
            # ended with a complete call.
            self._call = call
            return pieces
        return pieces + (_fragments(fragments) if call.is_streamed else [Piece(text=TOOL_OPEN + call.text)])

    def _take(self, text: str, pieces: list[Piece]) -> None:
        self._held += text
        while not self.stopped and self._step(pieces):
            pass

    def _step(self, pieces: list[Piece]) -> bool:
        if isinstance(self._call, CallReader):
            return self._step_in_call(self._call, pieces)
        if isinstance(self._call, RawCallReader):
            return self._step_in_raw_calls(self._call, pieces)
        if self._is_fresh and self.names and self.raw_tool_calls and not self._held.strip():
            if len(self._held) <= MAX_LEADING_SPACE:
                return False
            self._is_fresh = False
        if self._begins_raw_call():
            self._call = RawCallReader(self.tool_calls, self.names, one_call=self.one_call)
            return True
        marks = (*self.stops, *CALL_MARKS) if self.names else self.stops
        found = min((at for at in map(self._held.find, marks) if at >= 0), default=-1)
        upto = found if found >= 0 else len(self._held) - open_end(self._held, marks)
        text, self._held = self._held[:upto], self._held[upto:]
        # Models write blank lines around tool calls, which are not part of the response.
        if text and not (self.names and not text.strip() and (found >= 0 or self.tool_calls)):
            pieces.append(Piece(text=text))
            self._is_fresh = False
        if found < 0:
            return False
        mark = next((mark for mark in CALL_MARKS if self.names and self._held.startswith(mark)), None)
        if mark is None or any(self._held.startswith(stop) for stop in self.stops):
            self.stopped, self._held = True, ""
            return False
        self._held, self._is_fresh = self._held[len(mark) :], False
        if mark == TOOL_OPEN:
            self._call = CallReader(self.tool_calls)
        else:
            self._call = RawCallReader(self.tool_calls, self.names, mark, one_call=self.one_call)
        return True

    def _begins_raw_call(self) -> bool:
        if not (self._is_fresh and self.names and self.raw_tool_calls):
            return False
        begun = self._held.lstrip()
        if begun[:1] == "[":
            # The text may also be the beginning of a mark.
            return not begun.startswith(RAW_CALL_MARKS) and not open_end(begun, RAW_CALL_MARKS)
        return begun[:1] == "{"

    def _step_in_raw_calls(self, call: RawCallReader, pieces: list[Piece]) -> bool:
        text, self._held = self._held, ""
        before = call.streamed
        pieces += _fragments(call.add(text))
        self.tool_calls += call.streamed - before
        if not call.is_closed:
            return False
        self._leave_raw_calls(call, pieces)
        self.stopped = self.one_call and call.streamed > 0
        return not self.stopped

    def _leave_raw_calls(self, call: RawCallReader, pieces: list[Piece]) -> None:
        if call.failed_mark:
            pieces.append(Piece(text=call.failed_mark))
        self._call, self._held, self._is_fresh = None, call.rest + self._held, False

    def _is_padding(self, text: str) -> bool:
        """True for whitespace after a call, and for the start of a tag that was cut off there."""
        return bool(self.tool_calls) and any(mark.startswith(text.strip()) for mark in CALL_MARKS)

    def _step_in_call(self, call: CallReader, pieces: list[Piece]) -> bool:
        text, self._held = self._held, ""
        was_streamed = call.is_streamed
        pieces += _fragments(call.add(text))
        self.tool_calls += call.is_streamed and not was_streamed
        if not call.is_closed:
            return False
        if not call.is_streamed:
            pieces.append(Piece(text=TOOL_OPEN + call.text[: -len(call.rest) or None]))
        self._held, self._call = call.rest, None
        self.stopped = self.one_call and call.is_streamed
        return not self.stopped


def _fragments(fragments: list[dict[str, Any]]) -> list[Piece]:
    return [Piece(tool_call=fragment) for fragment in fragments]
