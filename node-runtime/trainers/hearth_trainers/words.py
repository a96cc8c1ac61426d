"""Splits a text into words. The trainer and the model server use it, so it needs
the standard library only."""

from __future__ import annotations

import re
from collections.abc import Iterator

_WORD = re.compile(r"\w+", re.UNICODE)


def words_of(text: str, longest: int) -> Iterator[str]:
    """Yields the words of a text in lower case, then its runs of 2 to `longest` words."""
    words = _WORD.findall(text.lower())
    yield from words
    for length in range(2, longest + 1):
        for start in range(len(words) - length + 1):
            yield " ".join(words[start : start + length])
