"""Finds optional columns that a request misspells. Without a check they would count as missing, and the
prediction would be for a different row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from itertools import accumulate, chain
from typing import Any

MIN_PREFIX_CHARS = 3
MIN_RATIO = 0.8
# Limits on the work for one request, because it delays other callers: names beyond these limits aren't
# checked.
MAX_NAMES = 50
MAX_NAME_CHARS = 200
MAX_PAIRS = 50_000
# A ratio takes time proportional to the product of both lengths; a product of one million takes about 0.1 s.
MAX_RATIO_CHARS = 40
MAX_RATIO_WORK = 1_000_000


class MisspeltColumns:
    """A model's optional columns, and the other columns of its training table, which requests may contain
    too. If not all of those are known, an unknown name may be one of them, so it must have the same
    letters and digits as an optional column.
    """

    def __init__(self, optional: Iterable[str], others: Iterable[str], are_all_known: bool = True) -> None:
        self._optional = frozenset(optional)
        self._known = self._optional.union(others)
        self._are_all_known = are_all_known
        self._max_names = min(MAX_NAMES, max(1, MAX_PAIRS // max(1, len(self._optional))))
        # Rows often have the same extra columns.
        self._columns_near = lru_cache(maxsize=1000)(self._find_near)

    def are_named_in(self, row: Mapping[str, Any]) -> bool:
        """Returns whether a row names every optional column, so that it needs no further check."""
        return row.keys() >= self._optional

    def first_in(self, row: Mapping[str, Any], checked: dict[str, bool]) -> tuple[str, str] | None:
        """Returns an unknown name from the row, and the column that it probably means, which the row lacks.
        `checked` collects the unknown names of one request, and whether they are compared by ratio.
        """
        for name in row:
            if name in self._known or len(name) > MAX_NAME_CHARS:
                continue
            if name not in checked:
                if len(checked) == self._max_names:
                    continue
                compared = sum(len(one) for one, by_ratio in checked.items() if by_ratio) + len(name)
                checked[name] = len(name) <= MAX_RATIO_CHARS and compared * self._ratio_chars <= MAX_RATIO_WORK
            near = next((column for column in self._columns_near(name, checked[name]) if column not in row), None)
            if near is not None:
                return name, near
        return None

    def _find_near(self, name: str, by_ratio: bool) -> list[str]:
        """Returns the optional columns with a similar name, the most similar first."""
        from difflib import SequenceMatcher

        typed = _Name(name)
        if not typed.text:
            return []
        matcher = SequenceMatcher(autojunk=False)
        matcher.set_seq2(typed.text)
        found: list[tuple[float, str]] = []
        for column in self._names:
            if typed.text == column.text:
                found.append((2.0, column.written))
                continue
            if not self._are_all_known:
                continue
            ratio = 0.0
            # `size_2` and `size_1` are different columns, and so are `customer_id` and `customer`.
            is_comparable = typed.digits == column.digits and not typed.has_more_or_fewer_parts(column)
            if by_ratio and is_comparable and len(column.text) <= MAX_RATIO_CHARS:
                matcher.set_seq1(column.text)
                if matcher.real_quick_ratio() >= MIN_RATIO and matcher.quick_ratio() >= MIN_RATIO:
                    ratio = matcher.ratio()
            if ratio >= MIN_RATIO or typed.starts(column) or column.starts(typed):
                found.append((ratio, column.written))
        return [column for _, column in sorted(found, key=lambda one: (-one[0], one[1]))]

    @cached_property
    def _names(self) -> list[_Name]:
        return [_Name(column) for column in sorted(self._optional) if len(column) <= MAX_NAME_CHARS]

    @cached_property
    def _ratio_chars(self) -> int:
        """The number of characters in all columns that are compared by ratio."""
        return sum(len(column.text) for column in self._names if len(column.text) <= MAX_RATIO_CHARS)


class _Name:
    """The name of a column, folded for comparisons."""

    def __init__(self, written: str) -> None:
        from unicodedata import combining, normalize

        self.written = written
        # Decomposed, m² is m2, and accents are separate marks.
        marked = normalize("NFKD", written).casefold()
        plain = "".join(char for char in marked if not combining(char))
        self.text = "".join(char for char in plain if char.isalnum())
        self.digits = "".join(char for char in self.text if char.isdigit())
        words = "".join(char if char.isalnum() or char == "_" else " " for char in plain).split()
        parts = [word.replace("_", " ").split() for word in words]
        self._parts = list(chain.from_iterable(parts))
        # How many parts there are up to the end of each word.
        self._word_ends = set(accumulate(len(one) for one in parts))

    def starts(self, other: _Name) -> bool:
        """Returns whether another name starts with these parts and continues with further words: `size` is
        `Size m²` without its unit, while `age_group` is a different column from `age`.
        """
        count = len(self._parts)
        return len(self.text) >= MIN_PREFIX_CHARS and count in other._word_ends and other._parts[:count] == self._parts

    def has_more_or_fewer_parts(self, other: _Name) -> bool:
        """Returns whether one name consists of the other plus further parts."""
        shorter, longer = sorted((self._parts, other._parts), key=len)
        return len(shorter) < len(longer) and longer[: len(shorter)] == shorter
