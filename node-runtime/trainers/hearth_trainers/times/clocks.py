"""Recognizes times of day."""

from __future__ import annotations

import re

_CLOCK = re.compile(r"(?:[01]?\d|2[0-4])[:h][0-5]\d(?::[0-5]\d(?:\.\d+)?)?(?:\s*[AaPp]\.?[Mm]\.?)?")
# Excel writes times like this in Italian and Finnish. Others, such as 18.05.21, may be dates.
_WITH_POINTS = re.compile(r"([01]?\d|2[0-4])\.([0-5]\d)\.([0-5]\d)")


def is_clock(text: str) -> bool:
    """Returns whether a string is a time of day and not a date."""
    if _CLOCK.fullmatch(text):
        return True
    found = _WITH_POINTS.fullmatch(text)
    return found is not None and not _may_be_date(*map(int, found.groups()))


def are_clocks(texts: list[str]) -> bool:
    """Returns whether all values in a column are times of day. Taken alone, some dotted ones could be dates."""
    return any(map(is_clock, texts)) and all(_CLOCK.fullmatch(text) or _WITH_POINTS.fullmatch(text) for text in texts)


def _may_be_date(first: int, second: int, third: int) -> bool:
    has_day = 1 <= first <= 31 or 1 <= third <= 31
    return (1 <= second <= 12 and has_day) or (1 <= first <= 12 and 1 <= second <= 31)
