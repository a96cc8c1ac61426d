"""Splits off the reasoning that a model writes between tags before its response."""

from __future__ import annotations

# Opening and closing tags of the model families that write reasoning.
TAG_PAIRS = (("<think>", "</think>"), ("[THINK]", "[/THINK]"))
REASONING_TAGS = tuple(tag for pair in TAG_PAIRS for tag in pair)

# Whitespace before a tag is dropped with it, so it is held back; models write a few line breaks at most.
MAX_LEADING_SPACE = 16


def open_end(text: str, marks: tuple[str, ...]) -> int:
    """Returns the number of trailing characters that may be the start of a mark."""
    longest = max(map(len, marks), default=1) - 1
    for length in range(min(longest, len(text)), 0, -1):
        if any(mark.startswith(text[-length:]) for mark in marks):
            return length
    return 0


def closing_tag_of(prompt_end: str) -> str | None:
    """Returns the closing tag of reasoning that a prompt has already opened, as some model families'
    templates do.
    """
    end = prompt_end.rstrip()
    return next((closing for opening, closing in TAG_PAIRS if end.endswith(opening)), None)


class ReasoningParser:
    """Splits text that arrives in pieces into reasoning and response. Without a closing tag, all of it is reasoning."""

    def __init__(self, closing: str | None = None) -> None:
        # The closing tag of the reasoning; None before and after it.
        self._closing = closing
        self._may_begin = closing is None
        self._held = ""
        # Whitespace is passed on only between other characters of the reasoning or response.
        self._is_blank = True
        # The part of the response that arrived together with the end of the reasoning.
        self.answer_start = ""

    @property
    def is_inside(self) -> bool:
        """True while the reasoning has begun but not ended."""
        return self._closing is not None

    def add(self, text: str) -> tuple[str, str]:
        """Returns the parts of the reasoning and of the response that are ready."""
        self._held += text
        if self._may_begin and not self._begin():
            return "", self._answer()
        if self._closing is None:
            return "", self._answer()
        inside, found, behind = self._held.partition(self._closing)
        if found:
            self._held = behind
            reasoning, self._closing, self._is_blank = self._trimmed(inside.rstrip()), None, True
            self.answer_start = self._answer()
            return reasoning, self.answer_start
        upto = len(inside[: len(inside) - open_end(inside, (self._closing,))].rstrip())
        reasoning, self._held = self._trimmed(inside[:upto]), inside[upto:]
        return reasoning, ""

    def end(self) -> tuple[str, str]:
        """Returns the text that is still held back when the model stops."""
        rest, self._held = self._held, ""
        return (self._trimmed(rest.rstrip()), "") if self._closing else ("", rest)

    def _begin(self) -> bool:
        begun = self._held.lstrip()
        for opening, closing in TAG_PAIRS:
            if begun.startswith(opening):
                self._held, self._closing, self._may_begin = begun[len(opening) :], closing, False
                return True
        lead = len(self._held) - len(begun)
        if lead > MAX_LEADING_SPACE or not any(opening.startswith(begun) for opening, _ in TAG_PAIRS):
            # The response begins immediately and retains its whitespace.
            self._may_begin = self._is_blank = False
        return False

    def _answer(self) -> str:
        if self._may_begin:
            return ""
        text, self._held = self._trimmed(self._held), ""
        return text

    def _trimmed(self, text: str) -> str:
        if not self._is_blank:
            return text
        text = text.lstrip()
        self._is_blank = not text
        return text
