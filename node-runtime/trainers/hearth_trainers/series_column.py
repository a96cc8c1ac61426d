"""Chooses the column that a forecast predicts, and warns about others that it may have been meant for."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .cells import point_meaning, read_numbers
from .errors import JobError
from .near_values import near_numbers
from .protocol import log, warn_about_data
from .ranks import is_sorted
from .tabular import target_column
from .time_columns import may_hold_dates
from .times import read_times


# The least and the greatest number of each part of a time.
_PARTS = {
    "year": (1_500, 2_199),
    "quarter": (1, 4),
    "month": (1, 12),
    "week": (0, 53),
    "weekofyear": (0, 53),
    "weekday": (0, 7),
    "dayofweek": (0, 7),
    "dayofyear": (1, 366),
    "day": (0, 366),
    "hour": (0, 24),
    "minute": (0, 59),
}
_SINCE_1970 = "since 1970"


def choose_series(table: pa.Table, named: str, time_column: str) -> str:
    """Returns the named column or one called `target`, otherwise the last one with numbers that are neither times nor count
    the rows. Texts of numbers are often identifiers, so they come last. Warns where another column may be the series, unless
    the request named it."""
    numbers = _number_columns(table, time_column)
    texts = [name for name in numbers if pa.types.is_string(table.column(name).type)]
    others = [name for name in numbers if name not in texts]
    if "target" in table.column_names or named not in ("", _platform_choice(numbers, others)):
        return target_column(table, named)
    order = [*texts, *others]
    times = {name: how for name, column in numbers.items() if (how := _times_in(name, column))}
    doubtful = _doubtful_times(table, numbers, times, time_column)
    fitting = [name for name in order if name not in {*times} - doubtful and not _counts_rows(numbers[name])]
    series = named or next(reversed(fitting or order), None)
    if series is None:
        raise JobError("The dataset has no column with numbers to forecast.", code="not_a_number")
    log(f"The series is '{series}'.")
    if series in doubtful:
        _warn(series, f"though its numbers look like {times[series]}", series)
    for name in table.column_names:
        if name in (series, time_column):
            continue
        column = table.column(name)
        reason = None
        if name in times and name not in doubtful:
            is_behind = order.index(name) > order.index(series)
            is_unclear = _SINCE_1970 in times[name] or (is_behind and _part_of(name) and not _is_part(name))
            if is_unclear and not _counts_rows(numbers[name]):
                reason = f"its numbers look like {times[name]}"
        elif name in fitting and name in texts:
            reason = "it holds numbers as texts"
        elif name not in numbers and pa.types.is_string(column.type):
            reason = near_numbers(column)
        if reason:
            _warn(series, f"not '{name}': {reason}", name)
    return series


def _warn(series: str, why: str, column: str) -> None:
    warn_about_data(f"The series is '{series}', {why}. Name the right one as target_column.", column=column)


def _platform_choice(numbers: dict[str, pa.ChunkedArray], others: list[str]) -> str | None:
    """Returns the column that the platform names where a request names none, by the types alone."""
    last = next(reversed(others), None)
    return last if last and (len(others) == 1 or pa.types.is_floating(numbers[last].type)) else None


def _number_columns(table: pa.Table, time_column: str) -> dict[str, pa.ChunkedArray]:
    """Returns the columns of numbers, also those of texts that are all numbers, as JSON Lines and Parquet may hold them.
    Texts with a leading zero are codes."""
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


def _times_in(name: str, column: pa.ChunkedArray) -> str | None:
    """Says which times or parts of times whole numbers are; None for other numbers."""
    if not pa.types.is_integer(column.type):
        return None
    if part := _part_of(name):
        low, high = _PARTS[part]
        found = pc.min_max(column).as_py()
        if low <= found["min"] and found["max"] <= high:
            return "parts of times"
    try:
        times = read_times(column, "")
    except JobError:
        # Only numbers with dates in all digits have several readings.
        return "dates"
    return None if times.is_number and not times.unit else times.how


def _doubtful_times(table: pa.Table, numbers: dict[str, pa.ChunkedArray], times: dict[str, str], time_column: str) -> set[str]:
    """Returns the columns whose numbers may be times since 1970, or amounts: they are in no order, and others hold times."""
    epochs = [name for name, how in times.items() if _SINCE_1970 in how]
    found = {name for name in epochs if not is_sorted(numbers[name].drop_null().to_numpy())}
    has_others = time_column or len(found) < len(times) or any(map(may_hold_dates, table.columns))
    return found if has_others else set()


def _part_of(name: str) -> str | None:
    """Returns the part of a time that a name ends with, as `order_month`, `day_of_week` and `Year` do."""
    words = _words(name)
    part = words[words.index("of") - 1] if "of" in words[1:] else words[-1] if words else ""
    return part if part in _PARTS and "per" not in words else None


def _is_part(name: str) -> bool:
    """Returns whether a name is a part of a time and nothing else."""
    words = _words(name)
    return words[0] in _PARTS and (len(words) == 1 or words[1] == "of")


def _words(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)]


def _counts_rows(column: pa.ChunkedArray) -> bool:
    """Returns whether whole numbers have one step throughout, in any order, as numbers of rows, years and seconds have."""
    if not pa.types.is_integer(column.type) or column.null_count or len(column) < 3:
        return False
    steps = np.unique(np.diff(np.sort(column.to_numpy())))
    return len(steps) == 1 and steps[0] > 0
