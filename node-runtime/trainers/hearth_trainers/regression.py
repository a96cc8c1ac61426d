"""Tabular regression."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from .datasets.cells import point_meaning, read_numbers
from .datasets.near_values import near_numbers
from .datasets.tables import report_numbers
from .errors import JobError, without_values
from .protocol import warn_about_data
from .run import Outcome, Run
from .schemas import columns_schema, predictions_schema
from .tabular.base import read_base
from .tabular.boosting import Rows, boost, predict
from .tabular.fitting import plain_rows, to_floats
from .tabular.preparation import EXAMPLES, prepare, split_rows, target_column


def train(run: Run) -> Outcome:
    """Predicts a number from the other columns. The loss is the mean squared error."""
    job = run.job
    target = target_column(run.table, job.param("target_column"))
    numbers = number_column(run.table, target)
    run = replace(run, table=run.table.set_column(run.table.column_names.index(target), target, numbers))
    base = read_base(run, "regression")
    data = prepare(run, target, base)
    y = to_floats(numbers.drop_null())
    if np.ptp(y) == 0:
        warn_about_data(
            f"Column '{target}' has the same value in every row: the model can only repeat it.", column=target
        )

    learn, check = split_rows(len(y), job.param("val_set_size"), job.param("seed"))
    objective = {"objective": "regression", "metric": "l2"}
    learn_rows, check_rows = Rows(data.x[learn], y[learn]), Rows(data.x[check], y[check])
    booster = boost(job, run.loop, objective, learn_rows, check_rows, data.categorical, base and base.model)

    examples = check[:EXAMPLES]
    return Outcome(
        task="regression",
        target=target,
        metrics=number_metrics(y[check], predict(booster, data.x[check])),
        input_schema=columns_schema(data.features),
        output_schema=predictions_schema({"type": "number"}),
        example_input={"instances": plain_rows(data.table, data.features, examples)},
        example_output={"predictions": predict(booster, data.x[examples]).tolist()},
        model_file="model.txt",
        files={"model.txt": booster.model_to_string(num_iteration=-1).encode()},
        left_out=data.left_out,
        extra=data.manifest_fields(),
    )


def number_metrics(actual: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Returns the metrics of a model that predicts numbers."""
    errors = actual - predicted
    squares, variation = float(errors @ errors), float(np.square(actual - actual.mean()).sum())
    # Of equal values there is no variation to explain: a prediction is either exact or worthless.
    r2 = 1 - squares / variation if variation > 0 else float(squares == 0)
    return {"mae": float(np.abs(errors).mean()), "rmse": (squares / len(errors)) ** 0.5, "r2": r2}


def number_column(table: pa.Table, name: str) -> pa.ChunkedArray:
    """Returns a column of numbers; raises an error that names the first row whose value is not a number."""
    column = table.column(name)
    kind = column.type
    if column.null_count == len(column):
        raise without_values(name, len(column))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return column
    points = point_meaning([one for one in table.columns if pa.types.is_string(one.type)])
    numbers = read_numbers(column, points) if pa.types.is_string(kind) else None
    if numbers is not None:
        how = numbers.how or "numbers, though the dataset stores them as text"
        report_numbers(name, column, replace(numbers, how=how))
        return numbers.column
    nearly = near_numbers(column) if pa.types.is_string(kind) else None
    why = f" ({nearly})" if nearly else ""
    for row, value in enumerate(column.to_pylist(), 1):
        if value is not None and not _is_number(value):
            raise JobError(
                f"Column '{name}' must contain numbers, but row {row} has {str(value)[:80]!r}{why}.",
                code="not_a_number",
                column=name,
                row=row,
            )
    raise JobError(f"Column '{name}' must contain numbers, but it is of type {kind}.", code="not_a_number", column=name)


def _is_number(value: object) -> bool:
    try:
        float(str(value))
    except ValueError:
        return False
    return not isinstance(value, bool)
