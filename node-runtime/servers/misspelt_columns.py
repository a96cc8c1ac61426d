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

        typed = _folded(name)
        if not typed:
            return []
        matcher = SequenceMatcher(autojunk=False)
        matcher.set_seq2(typed)
        found: list[tuple[float, str]] = []
        for column, folded in self._folded_columns:
            if typed == folded:
                found.append((2.0, column))
                continue
            shorter, longer = sorted((typed, folded), key=len)
            ratio = 0.0
            if len(self._optional) <= MAX_RATIO_COLUMNS:
                matcher.set_seq1(folded)
                if matcher.real_quick_ratio() >= MIN_RATIO and matcher.quick_ratio() >= MIN_RATIO:
                    ratio = matcher.ratio()
            if ratio >= MIN_RATIO or (len(shorter) >= MIN_PREFIX_CHARS and longer.startswith(shorter)):
                found.append((ratio, column))
        return [column for _, column in sorted(found, key=lambda one: (-one[0], one[1]))]

    @cached_property
    def _folded_columns(self) -> list[tuple[str, str]]:
        return [(column, _folded(column)) for column in sorted(self._optional) if len(column) <= MAX_NAME_CHARS]


def _folded(name: str) -> str:
    from unicodedata import normalize

    # Decomposed, m² is m2, and an accent is a mark of its own, which goes with everything that is no letter or digit.
    return "".join(char for char in normalize("NFKD", name).casefold() if char.isalnum())
