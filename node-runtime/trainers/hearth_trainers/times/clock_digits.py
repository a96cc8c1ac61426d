"""Reads numbers whose digits are a date and a time of day, such as 311220212359."""

from __future__ import annotations

import numpy as np

from .centuries import first_year_of, whole_year

_DATES = ("YYYYMMDD", "DDMMYYYY", "MMDDYYYY", "DDMMYY", "MMDDYY", "YYMMDD")
_CLOCKS = ("HH", "HHmm", "HHmmss")
# Date-first notations are listed first, because most programs write the date before the time.
NOTATIONS = [date + clock for date in _DATES for clock in _CLOCKS] + [
    clock + date for date in _DATES if not date.startswith("Y") for clock in _CLOCKS
]
# The years that are accepted in notations with a four-digit year.
_MIN_YEAR, _MAX_YEAR = 1900, 2100


def clock_readings(numbers: np.ndarray) -> dict[str, np.ndarray]:
    """Returns microseconds since 1970 for each notation that fits all of the whole numbers, which may lack
    leading zeros. Numbers of fewer than 9 or more than 14 digits have no such notation.
    """
    low, high = int(numbers.min()), int(numbers.max())
    if low < 0 or not 10**8 <= high < 10**14:
        return {}
    digits = len(str(high))
    width = digits + digits % 2
    whole = numbers.astype(np.int64)
    found = {notation: _read(whole, notation) for notation in NOTATIONS if len(notation) == width}
    return {notation: moments for notation, moments in found.items() if moments is not None}


def _read(numbers: np.ndarray, notation: str) -> np.ndarray | None:
    """Returns microseconds since 1970, or None if any of the numbers is not a valid time in this notation."""
    year, month, day, hour, minute, second = (_field(numbers, notation, letter) for letter in "YMDHms")
    in_range = (month >= 1) & (month <= 12) & (day >= 1) & (hour <= 23) & (minute <= 59) & (second <= 59)
    if "YYYY" in notation:
        in_range &= (year >= _MIN_YEAR) & (year <= _MAX_YEAR)
    if not in_range.all():
        return None
    if "YYYY" not in notation:
        year = whole_year(year, first_year_of([f"{one:02d}" for one in np.unique(year)]))
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + (day - 1)
    if (days.astype("datetime64[M]") != months).any():
        return None
    seconds = ((days.astype(np.int64) * 24 + hour) * 60 + minute) * 60 + second
    return seconds * 1_000_000


def _field(numbers: np.ndarray, notation: str, letter: str) -> np.ndarray:
    """Returns the digits in a letter's position; 0 if the notation lacks the letter."""
    count = notation.count(letter)
    after = len(notation) - notation.find(letter) - count
    return numbers // 10**after % 10**count if count else np.zeros_like(numbers)
