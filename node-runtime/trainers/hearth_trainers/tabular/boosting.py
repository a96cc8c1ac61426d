"""Gradient-boosted trees, trained by LightGBM under the shared epoch loop: one epoch is one boosting round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..job import Job
from ..loop import EpochLoop
from . import lgb

_MODEL = "model.txt"


@dataclass(frozen=True)
class Rows:
    """Encoded rows with their targets."""

    x: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None = None


def boost(
    job: Job,
    loop: EpochLoop,
    objective: dict[str, Any],
    train: Rows,
    validation: Rows,
    categorical: Sequence[int] = (),
    base: str | None = None,
) -> lgb.Booster:
    """Trains, or resumes training, and returns the model of the best epoch. The trees of
    `base` come before all others."""
    params = _params(job, objective, len(train.y))
    parts = loop.restore()
    start = parts[_MODEL].decode() if parts else base
    before = lgb.Booster(model_str=start) if start else None
    loop.begin()
    booster = before
    if not loop.is_over:
        learn = _dataset(train, params, categorical)
        check = _dataset(validation, params, categorical, learn)
        callbacks: list[Any] = [_Reporter(loop)]
        if job.param("colsample_bytree") < 1:
            callbacks.append(_EpochSeed(job, loop))
        booster = lgb.train(
            params,
            learn,
            num_boost_round=loop.epochs - loop.epoch,
            valid_sets=[learn, check],
            valid_names=["train", "validation"],
            init_model=before,
            keep_training_booster=True,
            callbacks=callbacks,
        )
    assert booster is not None
    trees = loop.history[loop.best_epoch - 1]["rounds"]
    return lgb.Booster(model_str=booster.model_to_string(num_iteration=trees))


def predict(booster: lgb.Booster, x: np.ndarray) -> np.ndarray:
    """Predicts encoded rows."""
    return np.asarray(booster.predict(x))


class _EpochSeed:
    """Draws the columns of each round from the seed and the epoch alone, so that a resumed
    run draws the same ones."""

    order = 0
    before_iteration = True

    def __init__(self, job: Job, loop: EpochLoop) -> None:
        self._loop = loop
        self._seed = int(job.param("seed"))

    def __call__(self, env: Any) -> None:
        seed = (self._seed * 1_000_003 + self._loop.epoch) % 2**31
        env.model.reset_parameter({"feature_fraction_seed": seed})


class _Reporter:
    """Reports each round to the loop."""

    order = 1
    before_iteration = False

    def __init__(self, loop: EpochLoop) -> None:
        self._loop = loop

    def __call__(self, env: Any) -> None:
        losses = {name: float(value) for name, _metric, value, _higher in env.evaluation_result_list}
        booster: lgb.Booster = env.model
        self._loop.done(
            losses["train"],
            losses["validation"],
            lambda: {_MODEL: booster.model_to_string(num_iteration=-1).encode()},
            rounds=booster.current_iteration(),
        )
        if self._loop.is_over:
            raise lgb.EarlyStopException(env.iteration, env.evaluation_result_list)


def _params(job: Job, objective: dict[str, Any], rows: int) -> dict[str, Any]:
    return {
        **objective,
        "learning_rate": job.param("learning_rate"),
        "num_leaves": job.param("num_leaves"),
        "max_depth": job.param("max_depth") or -1,
        # With the default of 20 rows, a table of 50 rows would not be split at all.
        "min_data_in_leaf": max(1, min(int(job.param("min_child_samples")), rows // 20)),
        "min_data_per_group": max(1, min(100, rows // 20)),
        "feature_fraction": job.param("colsample_bytree"),
        "lambda_l2": job.param("reg_lambda"),
        "num_threads": job.threads,
        # These options make the model independent of the number of threads.
        "deterministic": True,
        "force_col_wise": True,
        "seed": job.param("seed"),
        "verbosity": -1,
    }


def _dataset(rows: Rows, params: dict[str, Any], categorical: Sequence[int], reference: Any = None) -> lgb.Dataset:
    return lgb.Dataset(
        rows.x,
        rows.y,
        weight=rows.weight,
        params=params,
        categorical_feature=list(categorical),
        reference=reference,
        # A resumed run needs the raw values to compute the predictions of the earlier trees.
        free_raw_data=False,
    )
