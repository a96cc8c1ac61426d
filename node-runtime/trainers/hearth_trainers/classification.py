"""Tabular classification."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .labels import class_metrics, class_weights, present, read_labels, split_by_class
from .run import Outcome, Run
from .schemas import class_schema, columns_schema, predictions_schema
from .tabular import lgb
from .tabular.base import check_classes, read_base
from .tabular.boosting import Rows, boost, predict
from .tabular.fitting import plain_rows
from .tabular.preparation import EXAMPLES, prepare, target_column, with_written_classes

LEARNS_CLASSES = True


def train(run: Run) -> Outcome:
    """Predicts a class and the probability of each. The loss is the logarithmic loss."""
    job = run.job
    target = target_column(run.table, job.param("target_column"))
    base = read_base(run, "classification")
    has_numbers = base is not None and not any(isinstance(one, str) for one in base.classes)
    run = replace(run, table=with_written_classes(run, target, are_numbers=has_numbers))
    data = prepare(run, target, base)
    labels = read_labels(data.table.column(target), target)
    check_classes(base, labels.classes, target)
    learn, check = split_by_class(labels, job.param("val_set_size"), job.param("seed"))

    count = len(labels.classes)
    objective: dict[str, Any] = {"objective": "binary", "metric": "binary_logloss"}
    if count > 2:
        objective = {"objective": "multiclass", "metric": "multi_logloss", "num_class": count}
    weights = class_weights(labels, learn, job.param("class_weight"))
    train_rows, validation = (
        Rows(data.x[rows], labels.codes[rows], None if weights is None else weights[labels.codes[rows]])
        for rows in (learn, check)
    )
    booster = boost(job, run.loop, objective, train_rows, validation, data.categorical, base and base.model)

    examples = check[:EXAMPLES]
    return Outcome(
        task="classification",
        target=target,
        metrics=class_metrics(labels, check, _probabilities(booster, data.x[check])),
        input_schema=columns_schema(data.features),
        output_schema=predictions_schema(class_schema(labels.classes)),
        example_input={"instances": plain_rows(data.table, data.features, examples)},
        example_output={"predictions": present(labels, _probabilities(booster, data.x[examples]))},
        model_file="model.txt",
        files={"model.txt": booster.model_to_string(num_iteration=-1).encode()},
        left_out=data.left_out,
        extra={**data.manifest_fields(), "classes": labels.classes},
    )


def _probabilities(booster: lgb.Booster, x: np.ndarray) -> np.ndarray:
    scores = predict(booster, x)
    return np.column_stack([1 - scores, scores]) if scores.ndim == 1 else scores
