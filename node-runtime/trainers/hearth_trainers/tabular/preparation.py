"""The parts that regression and classification over a table share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..datasets.left_out import LeftOut, all_but, describe_left_out, other_columns
from ..datasets.tables import has_padded_numbers, report_merged_codes, spellings_of_one
from ..errors import JobError, no_such_column, without_values
from ..protocol import log, warn_about_data
from ..run import Run
from ..wording import counted
from .base import Base, features_of, report_unknown_values
from .features import Feature
from .fitting import IGNORED, categorical_positions, check_ignored, encode_table, fit_features, read_number_texts

MIN_ROWS = 10
EXAMPLES = 2


@dataclass(frozen=True)
class TabularData:
    """A table ready for training, without rows that lack a target."""

    table: pa.Table
    target: str
    features: list[Feature]
    x: np.ndarray
    categorical: list[int]
    # In the format of the run's metrics.
    left_out: list[dict[str, str]]

    def manifest_fields(self) -> dict[str, Any]:
        """Returns the manifest's fields about columns."""
        names = [feature.name for feature in self.features]
        return {
            "features": [feature.as_json() for feature in self.features],
            "other_columns": other_columns(self.table.column_names, self.target, names),
        }


def target_column(table: pa.Table, named: str, usual: tuple[str, ...] = ("target",)) -> str:
    """Returns the column to predict: the named one, otherwise one with a usual
    name, otherwise the last."""
    names = table.column_names
    if named:
        if named not in names:
            raise no_such_column(named, names, "target_column")
        return named
    return next((name for name in usual if name in names), names[-1])


def with_written_classes(run: Run, target: str, *, are_numbers: bool = False) -> pa.Table:
    """Returns the table of `run`, with the classes in `target` as written if they may be codes: `07` and `7`
    are different classes, as are `1.1` and `1.10`. `are_numbers` means that a base model learned them as
    numbers.
    """
    written = run.codes.get(target)
    is_padded = written is not None and has_padded_numbers(written)
    # 1 and 1.0 are the same class: programs write whole numbers as 1.0 if a column has a missing value.
    alike = None if written is None else spellings_of_one(pc.replace_substring_regex(written, r"(\d)\.0*$", r"\1"))
    if are_numbers or not (is_padded or alike):
        written = None
    else:
        del run.codes[target]
    for name, texts in run.codes.items():
        # Numbers in other columns are often written in several ways.
        if name == target or has_padded_numbers(texts):
            report_merged_codes(name, texts)
    # We don't need a second copy of these columns during training.
    run.codes.clear()
    if written is None:
        return run.table
    log(f"Classes in '{target}' have leading zeros or are written in several ways, so all are learned as text.")
    if alike and not is_padded:
        other, text, row = alike
        warn_about_data(
            f"'{other}' and '{text}' (row {row}) in '{target}' are learned as different classes; write one class in "
            "one way.",
            column=target,
            row=row,
        )
    # Checkpoints from earlier versions have these classes as numbers, in a different order.
    run.loop.require("classes as written")
    return run.table.set_column(run.table.column_names.index(target), target, written)


def rows_with(table: pa.Table, column: str) -> pa.Table:
    """Returns the rows with a value in `column`; raises an error if there are too few. Blank text is not a
    value.
    """
    values = table.column(column)
    present = pc.is_valid(values)
    if pa.types.is_string(values.type):
        present = pc.fill_null(pc.not_equal(pc.utf8_trim_whitespace(values), ""), False)
    filtered = table.filter(present)
    dropped = table.num_rows - filtered.num_rows
    if filtered.num_rows == 0:
        raise without_values(column, dropped)
    if dropped:
        first = pc.index(present, False).as_py() + 1
        warn_about_data(
            f"Left out {counted(dropped, 'row')} without a value in '{column}'; the first is row {first}.",
            column=column,
            count=dropped,
            row=first,
        )
    if filtered.num_rows < MIN_ROWS:
        without = f" after {dropped:,} without a value in '{column}' were left out" if dropped else ""
        raise JobError(
            f"The dataset has {filtered.num_rows} rows{without}; at least {MIN_ROWS} are needed.", code="too_few_rows"
        )
    return filtered


def prepare(run: Run, target: str, base: Base | None) -> TabularData:
    """Chooses and encodes the columns; with a base, uses the base's columns."""
    ignore = run.job.param("ignore_columns")
    table = read_number_texts(rows_with(run.table, target), [target, *ignore])
    if base:
        features, left_out = _columns_of(base, table, run.table, target, ignore)
    else:
        features, left_out = fit_features(table, target, ignore)
    left_out_report = describe_left_out(left_out)
    if not features:
        why = "".join(f" '{one.column[:80]}' is left out: {one.reason[:200]}." for one in left_out[:5])
        raise JobError(f"The dataset has no column to learn from besides the target.{why}", code="no_features")
    x = encode_table(table, features)
    if base:
        report_unknown_values(base, table, run.table, x)
    return TabularData(table, target, features, x, categorical_positions(features), left_out_report)


def _columns_of(
    base: Base, table: pa.Table, written: pa.Table, target: str, ignore: Sequence[str]
) -> tuple[list[Feature], list[LeftOut]]:
    """Returns the base's columns, and the table's columns that the base did not learn from."""
    features = features_of(base, table, written, target, ignore)
    check_ignored(table, ignore)
    used = [target, *(feature.name for feature in features)]
    others = all_but(table.column_names, used, "the base model did not learn from it")
    return features, [LeftOut(one.column, IGNORED) if one.column in ignore else one for one in others]


def split_rows(count: int, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns row numbers for training and for validation, both in order; at least two of each."""
    held_out = min(max(2, round(count * fraction)), count - 2)
    mixed = np.random.default_rng(seed).permutation(count)
    return np.sort(mixed[held_out:]), np.sort(mixed[:held_out])
