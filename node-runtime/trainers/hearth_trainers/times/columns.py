"""Finds the column with a series' times, and warns if the choice among several may be wrong."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import JobError, no_such_column
from ..protocol import log, warn_about_data
from .ranks import is_sorted, oldest_first
from .reading import DoubtfulMonths, Times, looks_like_times, read_times

# A column with a larger share of rows without a time, such as the date of a cancellation, is unlikely to
# order the series.
_MAX_MISSING = 0.1
# Rows sorted by only one or two dates, such as those of two exports, prove nothing about the series.
_MIN_MOMENTS = 3
_TIMELY = re.compile(
    r"(^|[\W_])(date|day|time|timestamp|datetime|ts|ds|year|yearmonth|month|week|quarter|period|epoch)([\W_]|$)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class _Candidate:
    name: str
    times: Times

    @property
    def known(self) -> np.ndarray:
        return self.times.values[~self.times.missing]

    @property
    def moments(self) -> int:
        return len(np.unique(self.known))

    @property
    def differs_in_every_row(self) -> bool:
        return self.moments == len(self.known)

    def orders_alike(self, other: _Candidate) -> bool:
        """Returns whether sorting the rows by this column also sorts them by `other`."""
        both = ~(self.times.missing | other.times.missing)
        order = oldest_first(self.times.values[both])
        return bool((np.diff(other.times.values[both][order]) >= 0).all())


def find_times(table: pa.Table, target: str, named: str) -> tuple[str, Times] | None:
    """Returns the column with the times, and the times; None if no column has any. Raises an error if the
    named column has no times, or if no column with times can be read.
    """
    names = table.column_names
    if named:
        if named not in names:
            raise no_such_column(named, names, "time_column")
        if named == target:
            raise JobError(f"time_column and target_column both name '{named}'.", code="not_a_time", column=named)
        return named, read_times(table.column(named), named)
    columns = {
        name: table.column(name) for name in names if name != target and table.column(name).null_count < table.num_rows
    }
    candidates, failures = _read_candidates(columns)
    unsorted = [one.name for one in candidates if not _has_clear_order(one.times)]
    candidates = [one for one in candidates if one.name not in unsorted]
    # Numbers that only count, such as period numbers, mean less than dates and years.
    candidates = [one for one in candidates if _has_dates(one.times)] or candidates
    if candidates:
        used = _choose(candidates, failures)
        return used.name, used.times
    for failure in failures.values():
        if not isinstance(failure, DoubtfulMonths):
            raise failure
    _report_failures(failures)
    if len(names) > 1:
        but = (
            f" '{unsorted[0]}' isn't used, because its numbers may not be times and would change the order."
            if unsorted
            else ""
        )
        warn_about_data(
            f"No column with times was found: the rows are assumed to be oldest first.{but} Name one as time_column."
        )
    return None


def known_times(columns: dict[str, pa.ChunkedArray], timely: set[str]) -> dict[str, Times]:
    """Returns the times of the columns with readable dates or years. Those in `timely` may have any name."""
    candidates, _ = _read_candidates(columns, timely)
    return {one.name: one.times for one in candidates if _has_dates(one.times)}


def has_doubtful_order(times: Times) -> bool:
    """Returns whether numbers would change the order of the rows but may not be times at all: they are read
    as plain numbers, and don't begin with a year.
    """
    known = times.values[~times.missing]
    return times.is_number and not is_sorted(known) and not _begin_with_years(known)


def _read_candidates(
    columns: dict[str, pa.ChunkedArray], timely: Collection[str] = ()
) -> tuple[list[_Candidate], dict[str, JobError]]:
    """Reads the columns that may hold times, and the timely ones. Returns the columns with times (numbers
    last), and the reasons why others can't be read.
    """
    moments = [name for name, column in columns.items() if may_hold_dates(column)]
    numbers = [
        name for name, column in columns.items() if name in timely or (_TIMELY.search(name) and _counts_up(column))
    ]
    candidates: list[_Candidate] = []
    failures: dict[str, JobError] = {}
    for name in dict.fromkeys([*moments, *numbers]):
        try:
            candidates.append(_Candidate(name, read_times(columns[name], name)))
        except JobError as error:
            failures[name] = error
    return candidates, failures


def _choose(candidates: list[_Candidate], failures: dict[str, JobError]) -> _Candidate:
    """Returns the column that orders the series. Warns unless only this column has a different value in every
    row and matches the file's order, or unless all candidates put the rows in the same order.
    """
    candidates = [one for one in candidates if one.moments > 1] or candidates
    complete = [one for one in candidates if one.times.missing.mean() <= _MAX_MISSING] or candidates
    different = [one for one in complete if one.differs_in_every_row]
    in_order = [one for one in complete if is_sorted(one.known) and one.moments >= _MIN_MOMENTS]
    proved = [one for one in different if is_sorted(one.known)]
    if proved:
        used, reason = min(proved, key=lambda one: int(one.times.missing.sum())), "the file is already in its order"
    elif in_order:
        used, reason = max(in_order, key=lambda one: one.moments), "the file is already in its order"
        # A file sorted by day may have each day's times in any order.
        finer = [one for one in different if one.orders_alike(used)]
        used, reason = (finer[0], "it differs in every row") if finer else (used, reason)
    elif different:
        used, reason = different[0], "it differs in every row"
    else:
        used, reason = complete[0], "it comes first"
    names = ", ".join(repr(name) for name in [*(one.name for one in candidates), *failures])
    has_proof = bool(proved) and _has_dates(used.times)
    is_sure = all(used.orders_alike(one) and one.orders_alike(used) for one in proved or candidates)
    if not is_sure or (failures and not has_proof):
        _report_failures(failures)
        warn_about_data(
            f"'{used.name}' orders the rows, because {reason}, but several columns hold times. "
            f"Name the right one as time_column: {names}.",
            column=used.name,
        )
    elif len(candidates) + len(failures) > 1:
        log(f"The columns {names} hold times; '{used.name}' orders the rows, because {reason}.")
    return used


def _report_failures(failures: dict[str, JobError]) -> None:
    for name, failure in failures.items():
        warn_about_data(f"'{name}' isn't used as times. {failure}", column=name, row=failure.row)


def may_hold_dates(column: pa.ChunkedArray) -> bool:
    return pa.types.is_timestamp(column.type) or (pa.types.is_string(column.type) and looks_like_times(column))


def _counts_up(column: pa.ChunkedArray) -> bool:
    """Numbers that the request doesn't name are times only if they differ in every row: a month from 1 to 12
    is not a time.
    """
    is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    return is_number and column.null_count == 0 and pc.count_distinct(column).as_py() == len(column)


def _has_clear_order(times: Times) -> bool:
    """Returns whether a column that the request doesn't name may order the rows. Unsorted numbers may do so
    if they have a unit, because seconds since 1970 rarely fit a date notation in every row.
    """
    has_unit = times.how is not None and not times.notations
    return has_unit or not has_doubtful_order(times)


def _has_dates(times: Times) -> bool:
    return not times.is_number or times.how is not None or _begin_with_years(times.values[~times.missing])


def _begin_with_years(numbers: np.ndarray) -> bool:
    """Returns whether all numbers are years, or years with a week or a day of the year, such as 202152 and
    2021365.
    """
    return any(
        bool(((numbers == np.floor(numbers)) & (numbers // scale >= 1_500) & (numbers // scale <= 2_199)).all())
        and bool((numbers % scale <= last).all())
        for scale, last in ((1, 0), (100, 53), (1_000, 366))
    )
