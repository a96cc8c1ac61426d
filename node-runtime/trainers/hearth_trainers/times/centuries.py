"""Gives years of two digits their century."""

from __future__ import annotations

from typing import Any

# The first of the 100 years that two digits mean, by the rule of POSIX.
POSIX_YEAR = 1969


def first_year_of(years: list[str]) -> int:
    """Returns the first of the 100 years that the two digits of a column mean. They start after the longest run of
    years that the column lacks, so that no series is split between two centuries; its newest year has the century of
    POSIX."""
    short = sorted({int(year) for year in years if len(year) == 2})
    if not short:
        return POSIX_YEAR
    # From each year to the next one. Of equal gaps, the one with the border of POSIX counts.
    gaps = [
        ((after - year) % 100 or 100, (68 - year) % 100, year, after)
        for year, after in zip(short, [*short[1:], short[0]], strict=True)
    ]
    _, _, newest, oldest = max((length, border < length, newest, oldest) for length, border, newest, oldest in gaps)
    return whole_year(newest, POSIX_YEAR) - (newest - oldest) % 100


def whole_year(two_digits: Any, first_year: int) -> Any:
    """Returns years of four digits; accepts a number or an array of numbers."""
    return first_year + (two_digits - first_year) % 100
