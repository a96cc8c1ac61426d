"""Decides what two digits after a month's name mean: `Jan 21` is a month of 2021 or a day of any year."""

from __future__ import annotations

import numpy as np

from .ranks import is_sorted, rank_alike

MONTHS_WITH_YEAR = "months with a year"
DAYS_WITHOUT_YEAR = "days without a year"
# Days without a year count as days of 2000, which has a February 29. The next year starts this many days
# later.
_DAYS_OF_2000 = 366
_DAY_US = 86_400_000_000


def days_without_year(months: np.ndarray, numbers: np.ndarray) -> np.ndarray | None:
    """Returns the days as days of the year 2000, in days since 1970; None if a number, such as 95, can't be a
    day of its month.
    """
    firsts = (months + (2000 - 1970) * 12 - 1).astype("datetime64[M]")
    days = firsts.astype("datetime64[D]") + (numbers - 1)
    return days.astype(np.int64) if (days.astype("datetime64[M]") == firsts).all() else None


def months_or_days(years: np.ndarray, days: np.ndarray | None) -> tuple[np.ndarray, str, str] | None:
    """Returns the times of the rows, how they were read and why. `years` are their readings as months with a
    year (microseconds since 1970), `days` those as days without one. Returns None if either may be meant
    and the order of the rows depends on it.
    """
    in_turn = None if days is None else _across_new_year(days)
    # Days that repeat in no particular order may be from several years, which can't be distinguished.
    has_order = in_turn is not None or (days is not None and len(np.unique(days)) == len(days))
    if has_order and rank_alike([years, days if in_turn is None else in_turn]):
        either = f"they may be {DAYS_WITHOUT_YEAR}, but the order of the rows is the same either way"
        return years, MONTHS_WITH_YEAR, either
    only_so = "they may be {}, but only this reading puts the rows of the file in order"
    if is_sorted(years):
        return None if in_turn is not None else (years, MONTHS_WITH_YEAR, only_so.format(DAYS_WITHOUT_YEAR))
    if days is not None and _are_even_months(years):
        # They may also be the same few days of every month, if the file has them in order.
        even = f"they may be {DAYS_WITHOUT_YEAR}, but only this reading spaces the times evenly"
        return None if in_turn is not None else (years, MONTHS_WITH_YEAR, even)
    return None if in_turn is None else (in_turn * _DAY_US, DAYS_WITHOUT_YEAR, only_so.format(MONTHS_WITH_YEAR))


def _across_new_year(days: np.ndarray) -> np.ndarray | None:
    """Returns the days in file order, which may continue into the next year; None if they span more years or
    have no order.
    """
    if is_sorted(days):
        return days
    for sign in (1, -1):
        turns = np.flatnonzero(np.diff(days) * sign < 0)
        if len(turns) == 1 and (days[-1] - days[0]) * sign < 0:
            return days + sign * _DAYS_OF_2000 * (np.arange(len(days)) > turns[0])
    return None


def _are_even_months(moments: np.ndarray) -> bool:
    """Returns whether three or more months, in several years, are equally spaced by less than a year."""
    months = np.unique(moments.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64))
    steps = np.diff(months)
    return len(months) > 2 and len(np.unique(months // 12)) > 1 and bool((steps == steps[0]).all() and steps[0] < 12)
