"""Finds optional columns that a request misspells: without a check they would count as missing, and the prediction would be
one of another row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from typing import Any

MIN_PREFIX_CHARS = 3
MIN_RATIO = 0.8
# Bounds of the work for one request: later names, longer ones, and ratios in wider tables aren't looked at.
MAX_NAMES = 50
MAX_NAME_CHARS = 200
MAX_RATIO_COLUMNS = 500


class MisspeltColumns:
    """The optional columns of a model, and the other columns of its training table, which requests may hold too."""

    def __init__(self, optional: Iterable[str], others: Iterable[str]) -> None:
        self._optional = frozenset(optional)
        self._known = self._optional.union(others)
        # Rows with the same surplus columns come again and again.
        self._columns_near = lru_cache(maxsize=1000)(self._find_near)

    def are_named_in(self, row: Mapping[str, Any]) -> bool:
        """Returns whether a row names every optional column, so that it needs no further check."""
        return row.keys() >= self._optional

    def first_in(self, row: Mapping[str, Any], checked: set[str]) -> tuple[str, str] | None:
        """Returns a name of the row that the model doesn't know and the column that it probably means, which the row lacks.
        `checked` collects the unknown names of one request."""
        for name in row:
            if name in self._known or len(name) > MAX_NAME_CHARS:
                continue
            if name not in checked:
                if len(checked) == MAX_NAMES:
                    continue
                checked.add(name)
            near = next((column for column in self._columns_near(name) if column not in row), None)
            if near is not None:
                return name, near
        return None

    def _find_near(self, name: str) -> list[str]:
        """Returns the optional columns with a similar name, the most similar first."""
        from difflib import SequenceMatcher

        typed = _words(name)
        text = "".join(typed)
        if not text:
            return []
        matcher = SequenceMatcher(autojunk=False)
        matcher.set_seq2(text)
        found: list[tuple[float, str]] = []
        for column, words in self._words_of_columns:
            folded = "".join(words)
            if text == folded:
                found.append((2.0, column))
                continue
            ratio = 0.0
            # `size_2` is another column than `size_1`.
            if len(self._optional) <= MAX_RATIO_COLUMNS and _digits(text) == _digits(folded):
                matcher.set_seq1(folded)
                if matcher.real_quick_ratio() >= MIN_RATIO and matcher.quick_ratio() >= MIN_RATIO:
                    ratio = matcher.ratio()
            shorter, longer = sorted((typed, words), key=len)
            is_start = longer[: len(shorter)] == shorter and len("".join(shorter)) >= MIN_PREFIX_CHARS
            if ratio >= MIN_RATIO or is_start:
                found.append((ratio, column))
        return [column for _, column in sorted(found, key=lambda one: (-one[0], one[1]))]

    @cached_property
    def _words_of_columns(self) -> list[tuple[str, list[str]]]:
        return [(column, _words(column)) for column in sorted(self._optional) if len(column) <= MAX_NAME_CHARS]


def _words(name: str) -> list[str]:
    from unicodedata import combining, normalize

    # Decomposed, m² is m2, and an accent is a mark of its own.
    marked = normalize("NFKD", name).casefold()
    plain = "".join(char for char in marked if not combining(char))
    return "".join(char if char.isalnum() else " " for char in plain).split()


def _digits(text: str) -> str:
    return "".join(char for char in text if char.isdigit())
