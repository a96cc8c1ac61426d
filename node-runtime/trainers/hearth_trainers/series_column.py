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


def choose_series(table: pa.Table, named: str, time_column: str) -> str:
    """Returns the named column or one called `target`, otherwise the last one with numbers that does more than count the
    rows. Warns where another column may be the series: the platform names the last one with numbers by its type alone."""
    numbers = _number_columns(table, time_column)
    usual = next((name for name in reversed(numbers) if not _counts_rows(numbers[name])), next(reversed(numbers), None))
    if "target" in table.column_names or named not in ("", usual):
        return target_column(table, named)
    if usual is None:
        raise JobError("The dataset has no column with numbers to forecast.", code="not_a_number")
    log(f"The series is '{usual}'.")
    for name in table.column_names:
        column = table.column(name)
        is_text = name not in numbers and name != time_column and pa.types.is_string(column.type)
        if is_text and (nearly := near_numbers(column)):
            warn_about_data(
                f"The series is '{usual}', not '{name}': {nearly}. Name the right one as target_column.", column=name
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


def _counts_rows(column: pa.ChunkedArray) -> bool:
    """Returns whether whole numbers have one step throughout, in any order, as numbers of rows, years and seconds have."""
    if not pa.types.is_integer(column.type) or column.null_count or len(column) < 3:
        return False
    steps = np.unique(np.diff(np.sort(column.to_numpy())))
    return len(steps) == 1 and steps[0] > 0
