"""Chooses the input columns of a table and encodes the whole table as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..datasets.cells import point_meaning, read_numbers
from ..datasets.left_out import LeftOut
from ..datasets.near_values import near_values
from ..datasets.tables import report_numbers
from ..errors import no_such_column
from ..protocol import warn_about_data
from .features import BOOLEAN, CATEGORY, DATETIME, NUMBER, Feature

# In a text column with more distinct values than this, each value is too rare to learn from.
MAX_CATEGORIES = 500
# A column contains free text if it has at least this many distinct values, most of which have several words
# and occur in few rows.
MIN_FREE_TEXTS = 10
MIN_FREE_TEXT_WORDS = 4
MAX_RARE_ROWS = 3
_DAY_US = 86_400_000_000
# The reason for leaving out a column that a hyperparameter names.
IGNORED = "it is listed in ignore_columns"


def fit_features(table: pa.Table, target: str, ignore: Sequence[str]) -> tuple[list[Feature], list[LeftOut]]:
    """Returns the columns that the model uses, and those that it does not."""
    check_ignored(table, ignore)
    features: list[Feature] = []
    left_out: list[LeftOut] = []
    for name in table.column_names:
        if name == target:
            continue
        feature = IGNORED if name in ignore else _feature(name, table.column(name))
        if isinstance(feature, str):
            left_out.append(LeftOut(name, feature))
        else:
            features.append(feature)
    return features, left_out


def check_ignored(table: pa.Table, ignore: Sequence[str]) -> None:
    """Raises an error for a name in `ignore_columns` that no column has."""
    for name in ignore:
        if name not in table.column_names:
            raise no_such_column(name, table.column_names, "ignore_columns")


def _feature(name: str, column: pa.ChunkedArray) -> Feature | str:
    kind = column.type
    required = column.null_count == 0
    if column.null_count == len(column):
        return "it has no values"
    if _is_index(name, column):
        return "it has no name and numbers the rows"
    learnt_as = kind_of(kind)
    if learnt_as is None:
        return f"its values are of type {kind}"
    if learnt_as != CATEGORY:
        return Feature(name, learnt_as, required)
    nearly = near_values(column)
    # An accent may be a separate character or part of its letter.
    values = sorted(value for value in pc.unique(pc.utf8_normalize(column, "NFC")).to_pylist() if value is not None)
    if len(values) > MAX_CATEGORIES or (len(values) > 20 and len(values) > len(column) / 2):
        return f"it is text with {len(values)} different values" + (f": {nearly}" if nearly else "")
    if nearly is not None:
        warn_about_data(f"Column '{name}' is learned as text: {nearly}.", column=name)
    elif _are_free_texts(column):
        warn_about_data(
            f"Column '{name}' is learned as a category with {len(values)} distinct values, most of them in "
            f"{MAX_RARE_ROWS} rows or fewer; text that isn't in the training rows counts as missing. Add the "
            "column to ignore_columns, or train a text-classification model to learn from its words.",
            column=name,
            count=len(values),
        )
    return Feature(name, CATEGORY, required, tuple(values))


def kind_of(kind: pa.DataType) -> str | None:
    """Returns the kind of feature that a column of this type becomes; None for a type that no model learns
    from.
    """
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return NUMBER
    if pa.types.is_boolean(kind):
        return BOOLEAN
    if pa.types.is_timestamp(kind):
        return DATETIME
    return CATEGORY if pa.types.is_string(kind) else None


def _are_free_texts(column: pa.ChunkedArray) -> bool:
    """Returns whether most distinct texts in a column are rare and have several words, unlike towns, codes
    and labels.
    """
    counts = [
        (one["values"], one["counts"]) for one in pc.value_counts(column).to_pylist() if one["values"] is not None
    ]
    if len(counts) < MIN_FREE_TEXTS:
        return False
    long = sum(len(text.split()) >= MIN_FREE_TEXT_WORDS for text, _ in counts)
    rare = sum(rows <= MAX_RARE_ROWS for _, rows in counts)
    return 2 * long > len(counts) and 2 * rare > len(counts)


def _is_index(name: str, column: pa.ChunkedArray) -> bool:
    """Returns whether a column without a name is the index that pandas writes: a different number in every
    row, or numbers that count up and start over where tables were concatenated.
    """
    if (
        not name.startswith(("Unnamed: ", "__index_level_"))
        or not pa.types.is_integer(column.type)
        or column.null_count
    ):
        return False
    values = column.to_numpy()
    return len(np.unique(values)) == len(values) or bool(((np.diff(values) == 1) | (values[1:] == 0)).all())


def read_number_texts(table: pa.Table, but: Sequence[str]) -> pa.Table:
    """Returns the table with text columns converted to numbers if all their values are numbers, as in some
    JSON Lines and Parquet files. A column with leading zeros, such as postal codes, stays text.
    """
    points = point_meaning([column for column in table.columns if pa.types.is_string(column.type)])
    for index, name in enumerate(table.column_names):
        column = table.column(name)
        if name in but or not pa.types.is_string(column.type):
            continue
        numbers = read_numbers(column, points)
        if numbers is None or pc.any(pc.match_substring_regex(column, r"^\s*0\d")).as_py():
            continue
        how = numbers.how or "numbers, though the dataset stores them as text"
        report_numbers(name, column, replace(numbers, how=how))
        table = table.set_column(index, name, numbers.column)
    return table


def encode_table(table: pa.Table, features: Sequence[Feature]) -> np.ndarray:
    """Returns one row of numbers per row of the table; missing values are NaN."""
    matrix = np.empty((table.num_rows, sum(feature.width for feature in features)), dtype=np.float64)
    at = 0
    for feature in features:
        column = table.column(feature.name)
        if column.null_count == len(column):
            # With a base model, such a column may be of any type.
            matrix[:, at : at + feature.width] = np.nan
        elif feature.kind == DATETIME:
            matrix[:, at : at + feature.width] = _moments(column)
        else:
            matrix[:, at] = _numbers(column, feature)
        at += feature.width
    return matrix


def categorical_positions(features: Sequence[Feature]) -> list[int]:
    """Returns the positions in an encoded row that hold category numbers."""
    positions: list[int] = []
    at = 0
    for feature in features:
        if feature.kind == CATEGORY:
            positions.append(at)
        at += feature.width
    return positions


def to_floats(column: pa.ChunkedArray) -> np.ndarray:
    """Returns numbers as float64; missing and infinite ones are NaN."""
    values = pc.cast(column, pa.float64(), safe=False).to_numpy()
    return np.where(np.isfinite(values), values, np.nan)


def _numbers(column: pa.ChunkedArray, feature: Feature) -> np.ndarray:
    if feature.kind == CATEGORY:
        categories = pa.array(feature.categories, pa.string())
        # A base from an earlier version may have accents in either encoding.
        composed = pc.index_in(pc.utf8_normalize(column, "NFC"), pc.utf8_normalize(categories, "NFC"))
        return to_floats(pc.coalesce(pc.index_in(column, categories), composed))
    return to_floats(pc.cast(column, pa.int8()) if feature.kind == BOOLEAN else column)


def _moments(column: pa.ChunkedArray) -> np.ndarray:
    utc = pc.cast(column, pa.timestamp("us"))
    days = pc.divide(pc.cast(pc.cast(utc, pa.int64()), pa.float64(), safe=False), float(_DAY_US))
    parts: list[Any] = [days, pc.month(utc), pc.day_of_week(utc), pc.hour(utc)]
    return np.column_stack([to_floats(part) for part in parts])


def plain_rows(table: pa.Table, features: Sequence[Feature], indices: np.ndarray) -> list[dict[str, Any]]:
    """Returns rows in the format in which a caller would send them."""
    rows = table.select([feature.name for feature in features]).take(pa.array(indices)).to_pylist()
    return [{name: _plain(value) for name, value in row.items()} for row in rows]


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value.isoformat() if hasattr(value, "isoformat") else value
