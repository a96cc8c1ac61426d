"""Finds numbers that are one part of known times, such as the month, regardless of the column's name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .ranks import is_sorted
from .reading import Times

# This many leading rows are enough to rule out most columns.
_FIRST_ROWS = 200
_Part = Callable[[pa.Array], "pa.Array | np.ndarray"]
# Fewer distinct numbers, such as flags, may match a part by chance.
_MIN_DIFFERENT = 3
# A running total that restarts from zero rarely has the same number twice.
_MIN_CYCLES = 1.5
_MIN_YEAR, _MAX_YEAR = 1_500, 2_199


def _week_of_year(first: int | None, times: pa.Array) -> np.ndarray:
    """Returns the week of the year as spreadsheets count it: January 1 is in week 1. Weeks begin on the
    weekday `first` (0 is Monday); if it is None, on the weekday of January 1.
    """
    day = np.asarray(pc.day_of_year(times)) - 1
    before = 0 if first is None else (np.asarray(pc.day_of_week(times)) - first - day) % 7
    return (day + before) // 7 + 1


_from_first = partial(pc.week, count_from_zero=True, first_week_is_fully_in_year=True)
_WEEKS: tuple[_Part, ...] = (
    pc.iso_week,
    pc.us_week,
    partial(_from_first, week_starts_monday=True),
    partial(_from_first, week_starts_monday=False),
    *(partial(_week_of_year, first) for first in (0, 6, None)),
)
# Each part, the minimum number of distinct values for a match to be no coincidence, and the length of its
# cycle if it may start with another number: months begin with 0 or 1, weeks on several days, and days in
# several time zones.
_PARTS: tuple[tuple[_Part, int, int], ...] = (
    (pc.year, 1, 0),
    (pc.iso_year, 1, 0),
    (pc.year, _MIN_DIFFERENT, 100),
    (pc.quarter, 2, 4),
    (pc.month, 2, 12),
    *((week, _MIN_DIFFERENT, 0) for week in _WEEKS),
    (pc.day_of_week, _MIN_DIFFERENT, 7),
    (pc.day, _MIN_DIFFERENT, 0),
    (pc.day_of_year, _MIN_DIFFERENT, 0),
    (pc.hour, _MIN_DIFFERENT, 24),
    (pc.minute, _MIN_DIFFERENT, 60),
)


def small_numbers(column: pa.ChunkedArray) -> np.ndarray | None:
    """Returns whole numbers that may be parts of times, with NaN for missing ones; None for other numbers."""
    numbers = pc.cast(column, pa.float64(), safe=False).to_numpy()
    known = numbers[~np.isnan(numbers)]
    is_small = len(known) and bool((known == np.floor(known)).all()) and known.min() >= 0 and known.max() <= _MAX_YEAR
    return numbers if is_small else None


def are_parts(numbers: np.ndarray, times: Times) -> bool:
    """Returns whether numbers equal one part of the times in all rows that have both, wherever its cycle
    begins.
    """
    has_number = ~np.isnan(numbers)
    both = has_number & ~times.missing
    # Dates in only a few rows, such as those of cancellations, prove nothing.
    if 2 * both.sum() <= has_number.sum():
        return False
    values = numbers[both].astype(np.int64)
    count = len(np.unique(values))
    # Nanoseconds have the unit 0, because units are whole microseconds.
    micros = times.values[both] * times.unit if times.unit else times.values[both] // 1_000
    seconds = (micros // 1_000_000).astype(np.int64)
    # The times may be in UTC and their parts in another zone.
    zones = range(-12, 15) if (seconds % 86_400).any() else [0]

    def equal(rows: slice, zone: int, part: _Part, min_different: int, cycle: int) -> bool:
        moments = pa.array(seconds[rows] + 3_600 * zone, pa.timestamp("s"))
        apart = values[rows] - np.asarray(part(moments))
        if cycle and np.ptp(values) < cycle:
            apart %= cycle
            return not np.ptp(apart) and count >= (_MIN_DIFFERENT if apart[0] else min_different)
        return not apart.any() and count >= min_different

    first, every = slice(_FIRST_ROWS), slice(None)
    return any(equal(first, zone, *part) and equal(every, zone, *part) for zone in zones for part in _PARTS)


def count_in_turn(numbers: np.ndarray) -> bool:
    """Returns whether each row repeats a number, continues with the next larger one or starts over with the
    smallest, as months and every second hour do. Years need not start over. The newest row may come first.
    """
    known = numbers[~np.isnan(numbers)]
    different, ranks = np.unique(known, return_inverse=True)
    last = len(different) - 1
    if different[0] >= _MIN_YEAR and last and (np.diff(different) == 1).all() and is_sorted(known):
        return True
    if len(different) < _MIN_DIFFERENT or len(known) < _MIN_CYCLES * len(different):
        return False
    steps = np.diff(ranks)
    return any(np.isin(one, (0, 1, -last)).all() and bool((one == -last).any()) for one in (steps, -steps))
