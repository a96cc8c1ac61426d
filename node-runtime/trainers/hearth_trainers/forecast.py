"""Forecasts one series."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from .datasets.left_out import all_but, describe_left_out
from .errors import JobError, without_values
from .protocol import log, warn_about_data
from .regression import number_column, number_metrics
from .run import Outcome, Run
from .schemas import instances_schema, predictions_schema
from .tabular.boosting import Rows, boost, predict
from .tabular.fitting import to_floats
from .tabular.series import forecasts, window_features
from .tabular.series_column import choose_series
from .times.order import rows_in_time
from .wording import counted

# The largest number of encoded values in memory; for a longer series only every
# n-th starting point is used.
MAX_VALUES = 30_000_000
MIN_WINDOWS = 8
# A season counts as found if the series' correlation with itself one season earlier is at least this.
CLEAR_SEASON = 0.3


@dataclass(frozen=True)
class _Plan:
    lags: int
    horizon: int
    season: int
    # Values before this index are for training.
    border: int


def train(run: Run) -> Outcome:
    """Predicts the next values from the last ones. The loss is the mean
    squared error over all steps."""
    job = run.job
    target = choose_series(run.table, job.param("target_column"), job.param("time_column"))
    rows, time_column = rows_in_time(run.table, target, job.param("time_column"))
    y = _series(run.table, target, rows)
    used = [target, time_column or target]
    left_out = all_but(run.table.column_names, used, "a forecast learns from the past values of one column alone")
    left_out_report = describe_left_out(left_out)
    plan = _plan(y, job.param("horizon"), job.param("lags"), job.param("val_set_size"))

    # A window may reach back into training, but the values that it predicts may not.
    learn_at = _thinned(np.arange(plan.lags - 1, plan.border - 1), plan)
    check_at = _thinned(np.arange(plan.border - 1, len(y) - 1), plan)
    objective = {"objective": "regression", "metric": "l2"}
    learn = _rows(y, plan, learn_at, plan.border)
    check = _rows(y, plan, check_at, len(y))
    booster = boost(job, run.loop, objective, learn, check)

    base = np.repeat(y[check_at], plan.horizon)[_known(plan, check_at, len(y))]
    newest = y[-plan.lags :][None, :]
    changes = predict(booster, window_features(newest, plan.horizon, plan.season))
    lags = plan.lags
    past = {
        "type": "array",
        "items": {"type": "number"},
        "minItems": lags,
        "maxItems": 100_000,
        "description": f"The past values, newest last. The newest {lags} are used.",
    }
    return Outcome(
        task="forecast",
        target=target,
        metrics=number_metrics(base + check.y, base + predict(booster, check.x)),
        input_schema=instances_schema({target: past}, [target]),
        output_schema=predictions_schema(
            {"type": "array", "items": {"type": "number"}, "minItems": plan.horizon, "maxItems": plan.horizon}
        ),
        example_input={"instances": [{target: newest[0].tolist()}]},
        example_output={"predictions": forecasts(newest, changes).tolist()},
        model_file="model.txt",
        files={"model.txt": booster.model_to_string(num_iteration=-1).encode()},
        left_out=left_out_report,
        extra={"horizon": plan.horizon, "lags": lags, "season": plan.season},
    )


def _series(table: pa.Table, target: str, rows: np.ndarray) -> np.ndarray:
    values = to_floats(number_column(table, target))[rows]
    missing = np.isnan(values)
    if missing.all():
        raise without_values(target, len(rows))
    # Rows before the first value or after the last one, such as those to be forecast, have no neighbors to
    # fill them from.
    known = np.flatnonzero(~missing)
    inside = slice(known[0], known[-1] + 1)
    beyond = np.delete(rows, np.arange(inside.start, inside.stop))
    if len(beyond):
        first = int(beyond.min()) + 1
        warn_about_data(
            f"Left out {counted(len(beyond), 'row')} before the first or after the last value of '{target}'; "
            f"the first is row {first}.",
            column=target,
            count=len(beyond),
            row=first,
        )
    values, missing, rows = values[inside], missing[inside], rows[inside]
    if missing.any():
        first = int(rows[missing].min()) + 1
        warn_about_data(
            f"{counted(int(missing.sum()), 'missing value')} in '{target}' "
            f"{'is' if missing.sum() == 1 else 'are'} filled in between the neighbors; the first is in row {first}.",
            column=target,
            count=int(missing.sum()),
            row=first,
        )
        known = np.flatnonzero(~missing)
        values = np.interp(np.arange(len(values)), known, values[known])
    return values


def _plan(y: np.ndarray, horizon: int, lags: int, fraction: float) -> _Plan:
    count = len(y)
    lags = lags or int(np.clip(max(2 * horizon, 28), 2, max(2, count // 4)))
    held_out = max(round(count * fraction), 2)
    needed = lags + MIN_WINDOWS + held_out
    if count < needed or horizon > count // 2:
        least = max(needed, 2 * horizon, 20)
        raise JobError(
            f"The series has {count} values; with {lags} lags and a horizon of {horizon} at least {least} are needed.",
            code="too_few_rows",
        )
    border = count - held_out
    if np.ptp(y) == 0:
        warn_about_data("The series has the same value everywhere: the model can only repeat it.")
    return _Plan(lags, horizon, _season(y[:border], lags), border)


def _season(y: np.ndarray, longest: int) -> int:
    """Returns the lag, up to `longest`, at which the series resembles itself
    most; 0 if there is none."""
    changes = np.diff(y)
    changes = changes - changes.mean()
    power = float(changes @ changes)
    if power == 0 or len(changes) < 8:
        return 0
    lags = range(2, min(longest, len(changes) // 2) + 1)
    likeness = [float(changes[lag:] @ changes[:-lag]) / power for lag in lags]
    # A slow wave resembles itself at every short lag; a season exceeds its neighbors.
    peaks = [
        (value, lag)
        for value, lag, before, after in zip(likeness[1:], lags[1:], likeness, [*likeness[2:], -1.0], strict=False)
        if value >= CLEAR_SEASON and value > before and value >= after
    ]
    if not peaks:
        return 0
    season = max(peaks)[1]
    log(f"The series has a season of {season} rows.")
    return season


def _thinned(at: np.ndarray, plan: _Plan) -> np.ndarray:
    values = len(at) * plan.horizon * (plan.lags + 12)
    every = -(-values // MAX_VALUES)
    if every > 1:
        log(f"The series is long: every {every}th starting point is used.")
    return at[::every]


def _rows(y: np.ndarray, plan: _Plan, at: np.ndarray, end: int) -> Rows:
    windows = np.lib.stride_tricks.sliding_window_view(y, plan.lags)[at - plan.lags + 1]
    x = window_features(windows, plan.horizon, plan.season)
    known = _known(plan, at, end)
    ahead = (at[:, None] + np.arange(1, plan.horizon + 1)).ravel()[known]
    return Rows(x[known], y[ahead] - np.repeat(y[at], plan.horizon)[known])


def _known(plan: _Plan, at: np.ndarray, end: int) -> np.ndarray:
    """Selects the (origin, step) pairs whose target lies before `end`."""
    return (at[:, None] + np.arange(1, plan.horizon + 1) < end).ravel()
