"""Finds the parts of chat messages that the chat template of a base model leaves out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .messages import REASONING_MEMBERS

TEXT, REASONING = "text", "reasoning"
_END_OF_REASONING = "</think>"
# Digits survive a template that trims, quotes or changes the case of what it shows.
_MARK = "9182736450"


@dataclass(frozen=True)
class Part:
    """The text or the reasoning of the message at `place`, from 0."""

    place: int
    kind: str
    words: str


class LostParts:
    """Compares rows with the output of one chat template."""

    def __init__(self) -> None:
        self._known_shapes: set[tuple[object, ...]] = set()

    def find(
        self, messages: list[dict[str, Any]], text: str, render: Callable[[list[dict[str, Any]]], str]
    ) -> list[Part]:
        """Returns the parts of `messages` that `text`, the rendered row, does not show.

        Words missing from `text` may have been changed, and words in it may come from another message. So
        we render marks in place of missing parts, and also once for each shape of message.
        """
        marks: dict[tuple[int, str], str] = {}
        suspects: list[Part] = []
        for place, message in enumerate(messages):
            for part in _parts(place, message):
                shape = (part.kind, message["role"], "tool_calls" in message, place == 0, place == len(messages) - 1)
                if part.words not in text or shape not in self._known_shapes:
                    self._known_shapes.add(shape)
                    marks[place, part.kind] = f"{_MARK}{len(suspects):06}"
                    suspects.append(part)
        if not suspects:
            return []
        marked = render([_with_marks(place, message, marks) for place, message in enumerate(messages)])
        return [part for part in suspects if marks[part.place, part.kind] not in marked]


def _parts(place: int, message: dict[str, Any]) -> Iterator[Part]:
    for kind, words in ((REASONING, _reasoning(message)), (TEXT, _answer(message))):
        if words:
            yield Part(place, kind, words)


def _answer(message: dict[str, Any]) -> str:
    return message["content"].rpartition(_END_OF_REASONING)[2].strip()


def _reasoning(message: dict[str, Any]) -> str:
    inline = message["content"].rpartition(_END_OF_REASONING)[0].rpartition("<think>")[2]
    return message.get(REASONING_MEMBERS[0], inline).strip()


def _with_marks(place: int, message: dict[str, Any], marks: dict[tuple[int, str], str]) -> dict[str, Any]:
    reasoning = marks.get((place, REASONING), _reasoning(message))
    answer = marks.get((place, TEXT), _answer(message))
    if REASONING_MEMBERS[0] in message:
        return {**message, **dict.fromkeys(REASONING_MEMBERS, reasoning), "content": answer}
    inline = _END_OF_REASONING in message["content"]
    return {**message, "content": f"<think>\n{reasoning}\n{_END_OF_REASONING}\n\n{answer}" if inline else answer}
