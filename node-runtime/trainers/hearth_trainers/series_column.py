"""Chooses the column that a forecast predicts, and warns about others that it may have been meant for."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .cells import point_meaning, read_numbers
from .errors import JobError
from .near_values import near_numbers
from .protocol import log, warn_about_data
from .tabular import target_column
from .times import read_times


def choose_series(table: pa.Table, named: str, time_column: str) -> str:
    """Returns the named column or one called `target`, otherwise the last one with numbers that are neither times nor count
    the rows. Texts of numbers are often identifiers, so they come last. Warns where another column may be the series: the
    platform names the last one with numbers by its type alone."""
    numbers = _number_columns(table, time_column)
    texts = [name for name in numbers if pa.types.is_string(table.column(name).type)]
    order = [*texts, *(name for name in numbers if name not in texts)]
    times = {name: how for name, column in numbers.items() if (how := _times_in(column))}
    fitting = [name for name in order if name not in times and not _counts_rows(numbers[name])]
    usual = next(reversed(fitting or order), None)
    if "target" in table.column_names or named not in ("", usual):
        return target_column(table, named)
    if usual is None:
        raise JobError("The dataset has no column with numbers to forecast.", code="not_a_number")
    log(f"The series is '{usual}'.")
    for name in table.column_names:
        if name in (usual, time_column):
            continue
        column = table.column(name)
        reason = None
        if "since 1970" in times.get(name, "") and not _counts_rows(numbers[name]):
            reason = f"its numbers look like {times[name]}"
        elif name in fitting and name in texts and usual not in texts:
            reason = "it holds numbers as texts"
        elif name not in numbers and pa.types.is_string(column.type):
            reason = near_numbers(column)
        if reason:
            warn_about_data(
                f"The series is '{usual}', not '{name}': {reason}. Name the right one as target_column.", column=name
            )
    return usual


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


def _times_in(column: pa.ChunkedArray) -> str | None:
    """Says which times whole numbers are; None for other numbers."""
    if not pa.types.is_integer(column.type):
        return None
    try:
        times = read_times(column, "")
    except JobError:
        # Only numbers with dates in all digits have several readings.
        return "dates"
    return None if times.is_number and not times.unit else times.how


def _counts_rows(column: pa.ChunkedArray) -> bool:
    """Returns whether whole numbers have one step throughout, in any order, as numbers of rows, years and seconds have."""
    if not pa.types.is_integer(column.type) or column.null_count or len(column) < 3:
        return False
    steps = np.unique(np.diff(np.sort(column.to_numpy())))
    return len(steps) == 1 and steps[0] > 0
