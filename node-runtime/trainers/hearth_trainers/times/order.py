"""Sorts the rows of a series by time, and reports everything about their times that would mislead a forecast."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..datasets.cells import without_marks
from ..errors import JobError
from ..protocol import log, warn_about_data
from ..wording import counted
from .clocks import are_clocks
from .columns import find_times, has_doubtful_order
from .moments import DAY_US, in_words
from .ranks import oldest_first
from .reading import Times

# If at least this share of the rows repeat a time, a column that distinguishes those rows indicates several
# series.
_SEVERAL_SERIES = 0.1
# A step this many times as long as the usual one is a gap.
_GAP = 1.5
_EVEN = 0.6
_MONTH_DAYS = 30.436875
_PART = re.compile(
    r"(^|[\W_])(hour|hr|minute|min|second|sec|time|day|month|week|quarter|period)([\W_]|$)", re.IGNORECASE
)


def rows_in_time(table: pa.Table, target: str, named: str) -> tuple[np.ndarray, str]:
    """Returns the row numbers from oldest to newest, and the column with the times. Without such a column,
    returns all rows in file order and an empty name. Rows without a time are left out.
    """
    found = find_times(table, target, named)
    if found is None:
        return np.arange(table.num_rows), ""
    column, times = found
    _report_reading(times, table, column)
    rows = np.flatnonzero(~times.missing)
    if times.missing.any():
        first = int(np.flatnonzero(times.missing)[0]) + 1
        warn_about_data(
            f"Left out {counted(int(times.missing.sum()), 'row')} without a time in '{column}'; the first is row "
            f"{first}.",
            column=column,
            count=int(times.missing.sum()),
            row=first,
        )
    values = times.values[rows]
    _report_repeats(table, values, rows, column, target)
    _report_doubtful_order(times, column)
    order = oldest_first(values)
    steps = np.diff(values)
    if (steps > 0).any():
        log(f"The rows are sorted by '{column}'.")
    elif (steps < 0).any():
        log(f"The file has the newest row first; the rows are sorted by '{column}', oldest first.")
    if times.has_year:
        _report_steps(values[order], times.unit, column)
    return rows[order], column


def _may_be_dates_with_points(numbers: np.ndarray) -> bool:
    """Returns whether some number may be a date with a dot, such as 31.01, 2021.10, 52.2021 or 31122021.2359.
    Seconds, Julian days and similar numbers have other digits in some row.
    """
    whole = np.floor(numbers)
    if (numbers == whole).all():
        return False
    year = np.where(whole >= 1_000_000, 10_000, 100)
    if (
        whole.min() >= 10_100
        and _are_days_and_months(whole // year)
        and ((year == 100) | _are_years(whole % year)).all()
    ):
        return True
    digits = np.round((numbers - whole) * 10_000)
    if whole.min() < 0 or not np.allclose(whole + digits / 10_000, numbers, rtol=0, atol=1e-7):
        return False
    first, last = np.divmod(digits, 100)
    if (last == 0).all() and (whole.max() <= 53 or (_are_years(whole) & ((first <= 53) | (first % 10 == 0))).all()):
        return True
    has_year = whole.max() <= 366 and bool(_are_years(digits).all())
    return has_year or (_are_days_and_months(whole) and bool(((first <= 23) & (last <= 59)).all()))


def _are_years(numbers: np.ndarray) -> np.ndarray:
    return (numbers >= 1_500) & (numbers <= 2_199)


def _are_days_and_months(numbers: np.ndarray) -> bool:
    """Returns whether all numbers are a day and a month of two digits each, or the reverse."""
    first, last = np.divmod(numbers, 100)
    return any(
        bool(((day >= 1) & (day <= 31) & (month >= 1) & (month <= 12)).all())
        for day, month in ((first, last), (last, first))
    )


def _report_doubtful_order(times: Times, column: str) -> None:
    """Warns about numbers that change the order of the file. Rejects numbers that may be dates, because dates
    such as 31.01, 2021.10 or DDMMYYHHmm don't sort correctly as numbers.
    """
    if not has_doubtful_order(times):
        return
    rows = np.flatnonzero(~times.missing)
    known = times.values[rows]
    at = int(np.flatnonzero(np.diff(known) < 0)[0])
    before, after = int(rows[at + 1]) + 1, int(rows[at]) + 1
    swapped = f"sorting by them puts row {before} ({known[at + 1]:.15g}) before row {after} ({known[at]:.15g})"
    unit = f"count as {times.how}" if times.how else "have no unit"
    has_points = times.how is None and _may_be_dates_with_points(known)
    if times.notations or has_points:
        doubt = f"may be dates written as {' or '.join(times.notations)}" if times.notations else unit
        forms = "2023-12-31T23:59" if times.notations else "2023-12-31 or 2023-12"
        raise JobError(
            f"The numbers in '{column}' {doubt}, and {swapped}. If they are dates, write them as "
            f"{forms}; otherwise sort the rows of the file.",
            code="ambiguous_time",
            column=column,
            row=before,
        )
    warn_about_data(
        f"The numbers in '{column}' {unit}, and {swapped}. If they are dates, write them as 2023-12-31 or 2023-12.",
        column=column,
        row=before,
    )


def _report_reading(times: Times, table: pa.Table, column: str) -> None:
    if times.how is None:
        return
    assumed = f": {times.assumed}" if times.assumed else ""
    message = f"Parsed '{column}' as {times.how}{assumed}."
    if pa.types.is_string(table.column(column).type) or times.how.endswith(" first"):
        warn_about_data(message, column=column)
    else:
        log(message)


def _report_repeats(table: pa.Table, values: np.ndarray, rows: np.ndarray, column: str, target: str) -> None:
    _, firsts = np.unique(values, return_index=True)
    repeated = len(values) - len(firsts)
    if repeated == 0:
        return
    is_repeat = np.ones(len(values), bool)
    is_repeat[firsts] = False
    first = int(rows[np.flatnonzero(is_repeat)[0]]) + 1
    if repeated >= _SEVERAL_SERIES * len(values):
        parting = _parting_column(table, values, rows, {column, target})
        if parting and _is_part_of_time(table.column(parting[0]), parting[0]):
            raise JobError(
                f"{counted(repeated, 'row')} repeat a time in '{column}' (the first is row {first}), and "
                f"'{parting[0]}' tells them apart. A forecast reads the time from one column: write both into one, "
                "such as 2023-12-31T13:00:00 or 2023-12. If these are several series, keep the rows of one of them.",
                code="time_in_two_columns",
                column=parting[0],
                row=first,
            )
        if parting:
            raise JobError(
                f"{counted(repeated, 'row')} repeat a time in '{column}' (the first is row {first}), and "
                f"'{parting[0]}' has {parting[1]} values that tell them apart: these are several series, and a "
                "forecast learns one. Keep the rows of one of them, or add up the rows of each time.",
                code="several_series",
                column=parting[0],
                row=first,
            )
    warn_about_data(
        f"{counted(repeated, 'row')} {'repeats' if repeated == 1 else 'repeat'} a time in '{column}'; "
        f"the first is row {first}. Each counts as a separate step.",
        column=column,
        count=repeated,
        row=first,
    )


def _is_part_of_time(column: pa.ChunkedArray, name: str) -> bool:
    """Returns whether a column contains a part of a time: the time of day, or a number such as the hour or
    the month.
    """
    if pa.types.is_string(column.type):
        texts = [text for text in without_marks(column.slice(0, 200)).to_pylist() if text]
        return are_clocks(texts)
    return pa.types.is_integer(column.type) and _PART.search(name) is not None


def _parting_column(table: pa.Table, values: np.ndarray, rows: np.ndarray, used: set[str]) -> tuple[str, int] | None:
    """Returns the column with the fewest values that, together with the time, differs in every row."""
    found = []
    moments = np.unique(values, return_inverse=True)[1]
    for name in table.column_names:
        kind = table.column(name).type
        if name in used or not (pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
            continue
        codes = pc.fill_null(pc.index_in(table.column(name), pc.unique(table.column(name))), -1).to_numpy()[rows]
        count = len(np.unique(codes))
        if 1 < count <= len(rows) / 2 and len(np.unique(np.column_stack([moments, codes]), axis=0)) == len(rows):
            found.append((name, count))
    return min(found, key=lambda one: one[1]) if found else None


def _report_steps(values: np.ndarray, unit: int, column: str) -> None:
    steps = np.diff(values).astype(float)
    at = np.flatnonzero(steps > 0)
    if len(at) < 2:
        return
    lengths = steps[at]
    usual = float(np.median(lengths))
    if unit and usual * unit >= 27 * DAY_US:
        # Months and years differ in length.
        lengths = np.round(lengths * unit / DAY_US / _MONTH_DAYS)
        usual = max(1.0, float(np.median(lengths)))
    is_gap = lengths > _GAP * usual
    if np.mean((lengths <= _GAP * usual) & (lengths * _GAP >= usual)) < _EVEN:
        warn_about_data(f"The times in '{column}' are not evenly spaced; every row counts as one step.", column=column)
        return
    if not is_gap.any() or (unit and _are_weekends(values, lengths, at, is_gap, unit)):
        return
    before, after = (values[at[np.flatnonzero(is_gap)[0]] + offset] for offset in (0, 1))
    shown = [in_words(int(one * unit)) if unit else f"{one:g}" for one in (before, after)]
    warn_about_data(
        f"The times in '{column}' have {counted(int(is_gap.sum()), 'gap')}; the first is between {shown[0]} and "
        f"{shown[1]}. Every row counts as one step.",
        column=column,
        count=int(is_gap.sum()),
    )


def _are_weekends(values: np.ndarray, lengths: np.ndarray, at: np.ndarray, is_gap: np.ndarray, unit: int) -> bool:
    days = np.floor(values[at[is_gap]] * unit / DAY_US).astype(int)
    # January 1, 1970 was a Thursday, so a Friday is 1 modulo 7.
    return bool((days % 7 == 1).all() and np.isclose(lengths[is_gap] * unit / DAY_US, 3, atol=0.1).all())
