"""Chooses the column that a forecast predicts, and warns about other columns that may have been meant."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..datasets.cells import point_meaning, read_numbers
from ..datasets.near_values import near_numbers
from ..errors import JobError
from ..protocol import log, warn_about_data
from ..times.columns import known_times, may_hold_dates
from ..times.parts import are_parts, count_in_turn, small_numbers
from ..times.ranks import is_sorted
from ..times.reading import read_times
from .preparation import target_column

_SINCE_1970 = "since 1970"
_PARTS = "parts of times"
# Words for parts of times that need not match the dates, as in fiscal_year and week_of_month, with their
# maximum values.
_PART_NAMES = {"year": 2_199, "quarter": 4, "month": 13, "week": 53, "day": 366, "hour": 24, "minute": 60}


def choose_series(table: pa.Table, named: str, time_column: str) -> str:
    """Returns the named column or one called `target`, or else the last column of numbers that are neither
    times nor row numbers. Numbers stored as text are often identifiers, so they are the last choice. Warns
    if another column may be the series, unless the request named this one.
    """
    numbers = _number_columns(table, time_column)
    texts = [name for name in numbers if pa.types.is_string(table.column(name).type)]
    others = [name for name in numbers if name not in texts]
    # If the request names no column, the platform names the only column with numbers.
    if "target" in table.column_names or (named and others != [named]):
        return target_column(table, named)
    order = [*texts, *others]
    times = {name: how for name, column in numbers.items() if (how := _times_in(column))}
    # Unordered numbers that look like times since 1970 may be amounts, and they are if other columns contain
    # times.
    epochs = [name for name, how in times.items() if _SINCE_1970 in how]
    doubtful = {name for name in epochs if not is_sorted(numbers[name].drop_null().to_numpy())}
    times |= dict.fromkeys(_parts_of_times(table, numbers, {time_column, *times}, doubtful), _PARTS)
    named_parts = {name for name, column in numbers.items() if name not in times and _is_named_part(name, column)}
    times |= dict.fromkeys(named_parts, _PARTS)
    if not (time_column or len(doubtful) < len(times) or any(map(may_hold_dates, table.columns))):
        doubtful = set()
    fitting = [name for name in order if name not in {*times} - doubtful and not _counts_rows(numbers[name])]
    unclear = [name for name in order if times.get(name, _PARTS) == _PARTS]
    series = named or next(reversed(fitting or unclear or order), None)
    if series is None:
        raise _without_numbers(table, time_column)
    log(f"The series is '{series}'.")
    if series in doubtful or times.get(series) == _PARTS:
        _warn(series, f"though its numbers look like {times[series]}", series)
    also = [repr(name) for name in fitting if name in others and name not in (series, time_column)]
    if also:
        _warn(
            series, f"the last column of numbers, not {', '.join(also[:10])}{', ...' if len(also) > 10 else ''}", series
        )
    for name in table.column_names:
        if name in (series, time_column):
            continue
        column = table.column(name)
        reason = None
        if name in times and name not in doubtful:
            if (_SINCE_1970 in times[name] or name in named_parts) and not _counts_rows(numbers[name]):
                reason = f"its numbers look like {times[name]}"
        elif name in fitting and name in texts:
            reason = "it holds numbers as text"
        elif name not in numbers and pa.types.is_string(column.type):
            reason = near_numbers(column)
        if reason:
            _warn(series, f"not '{name}': {reason}", name)
    return series


def _without_numbers(table: pa.Table, time_column: str) -> JobError:
    """Returns the error for a table without a column of numbers. It names the first column that nearly
    qualifies.
    """
    for name, column in zip(table.column_names, table.columns, strict=True):
        reason = near_numbers(column) if name != time_column and pa.types.is_string(column.type) else None
        if reason:
            message = f"The dataset has no column with numbers to forecast. '{name}': {reason}."
            return JobError(message, code="not_a_number", column=name)
    return JobError("The dataset has no column with numbers to forecast.", code="not_a_number")


def _warn(series: str, why: str, column: str) -> None:
    warn_about_data(f"The series is '{series}', {why}. Name the right one as target_column.", column=column)


def _number_columns(table: pa.Table, time_column: str) -> dict[str, pa.ChunkedArray]:
    """Returns the numeric columns, including text columns whose values are all numbers, as in some JSON Lines
    and Parquet files. Text with a leading zero is a code.
    """
    points = point_meaning([column for column in table.columns if pa.types.is_string(column.type)])
    found = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if name == time_column or column.null_count == len(column):
            continue
        if pa.types.is_string(column.type) and not pc.any(pc.match_substring_regex(column, r"^\s*0\d")).as_py():
            numbers = read_numbers(column, points)
            column = numbers.column if numbers else column
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            found[name] = column
    return found


def _times_in(column: pa.ChunkedArray) -> str | None:
    """Returns what kind of times whole numbers are; None for other numbers."""
    if not pa.types.is_integer(column.type):
        return None
    try:
        times = read_times(column, "")
    except JobError:
        # Only numbers whose digits are dates can be read in several ways.
        return "dates"
    return times.how


def _parts_of_times(
    table: pa.Table, numbers: dict[str, pa.ChunkedArray], timely: set[str], doubtful: set[str]
) -> set[str]:
    """Returns the columns with one part of the times in another column, such as the month. If no column alone
    is certain to have a different date in each row, as with a date and an hour column, two more kinds
    count as parts: years that order the rows, and numbers that count up in turn. `timely` names the
    columns of numbers that are times.
    """
    found = {name: small_numbers(column) for name, column in numbers.items() if name not in timely}
    small = {name: values for name, values in found.items() if values is not None}
    if not small:
        return set()
    known = known_times({**dict(zip(table.column_names, table.columns, strict=True)), **numbers}, timely)
    dates = {name: times for name, times in known.items() if times.how or not times.is_number}
    parts = {name for name, values in small.items() if any(are_parts(values, times) for times in dates.values())}
    sure = [times.values[~times.missing] for name, times in dates.items() if name not in doubtful]
    if any(len(np.unique(moments)) == len(moments) for moments in sure):
        return parts
    return parts | {name for name, values in small.items() if name in known or count_in_turn(values)}


def _is_named_part(name: str, column: pa.ChunkedArray) -> bool:
    """Returns whether a column of small whole numbers is named for a part of a time, such as `month` or
    `fiscal_year`.
    """
    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)]
    last = words[words.index("of") - 1] if "of" in words[1:] else words[-1] if words else ""
    if last not in _PART_NAMES or "per" in words:
        return False
    numbers = small_numbers(column)
    return numbers is not None and bool(np.nanmax(numbers) <= _PART_NAMES[last])


def _counts_rows(column: pa.ChunkedArray) -> bool:
    """Returns whether sorted whole numbers have the same step throughout, as row numbers, years and seconds
    do.
    """
    if not pa.types.is_integer(column.type) or column.null_count or len(column) < 3:
        return False
    steps = np.unique(np.diff(np.sort(column.to_numpy())))
    return len(steps) == 1 and steps[0] > 0
