"""Finds the century of two-digit years."""

from __future__ import annotations

from typing import Any

# The first of the 100 years that two digits stand for under the POSIX rule.
POSIX_YEAR = 1969


def first_year_of(years: list[str]) -> int:
    """Returns the first of the 100 years that a column's two-digit years stand for. The range starts after
    the longest gap in the column's years, so that no series is split between two centuries. The newest
    year has its POSIX century.
    """
    short = sorted({int(year) for year in years if len(year) == 2})
    if not short:
        return POSIX_YEAR
    # The gap from each year to the next. Among equal gaps, the one that contains the POSIX boundary counts.
    gaps = [
        ((after - year) % 100 or 100, (68 - year) % 100, year, after)
        for year, after in zip(short, [*short[1:], short[0]], strict=True)
    ]
    _, _, newest, oldest = max((length, border < length, newest, oldest) for length, border, newest, oldest in gaps)
    return whole_year(newest, POSIX_YEAR) - (newest - oldest) % 100


def whole_year(two_digits: Any, first_year: int) -> Any:
    """Returns four-digit years; accepts a number or an array of numbers."""
    return first_year + (two_digits - first_year) % 100
