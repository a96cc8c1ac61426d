"""Loads a trained model directory for predictions. The format is in ../trainers/README.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from answers import InputProblem, Labels, problem_at
from hearth_trainers.files import BadModelFile, model_file, read_json
from hearth_trainers.tabular.features import Feature, RowEncoder, ValueProblem
from lightgbm_native import NativeBooster
from misspelt_columns import MisspeltColumns

FORMAT = "hearth-tabular/1"
MAX_INSTANCES = 10_000


class Model(Protocol):
    """Predicts instances that are known to be objects."""

    def predict(self, instances: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Returns one prediction per instance; raises an `InputProblem` for an invalid one."""
        ...


def load_model(directory: Path, threads: int) -> tuple[dict[str, Any], Model]:
    """Reads the manifest and the model of a directory."""
    manifest = read_json(directory, "manifest.json")
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise BadModelFile(f"its format is not the one that this server supports, {FORMAT}")
    path = model_file(directory, manifest["model_file"])
    task = manifest["task"]
    if task == "regression":
        return manifest, Regressor(manifest, NativeBooster(path, threads))
    if task == "classification":
        return manifest, Classifier(manifest, NativeBooster(path, threads))
    if task == "forecast":
        from forecast_model import Forecaster

        return manifest, Forecaster(manifest, NativeBooster(path, threads))
    if task == "text_classification":
        from text_model import TextClassifier

        return manifest, TextClassifier(manifest, directory)
    raise BadModelFile("this server does not support its task")


def read_instances(body: Any) -> list[Mapping[str, Any]]:
    """Returns the instances of a request body after the checks that need no model."""
    if not isinstance(body, dict) or "instances" not in body:
        raise InputProblem('The body must be an object with "instances", a list of objects.', "/instances")
    instances = body["instances"]
    if not isinstance(instances, list) or not instances:
        raise InputProblem("instances must be a list with at least one object.", "/instances")
    if len(instances) > MAX_INSTANCES:
        raise InputProblem(
            f"instances has {len(instances)} entries; at most {MAX_INSTANCES} are accepted.", "/instances"
        )
    for index, instance in enumerate(instances):
        if not isinstance(instance, dict):
            raise InputProblem(
                f"instances[{index}] must be an object of column names and values.", f"/instances/{index}"
            )
    return instances


def read_texts(value: Any) -> tuple[list[str], bool]:
    """Returns a request's list of strings, and whether the request contains a single string."""
    if isinstance(value, str):
        return [value], True
    if not isinstance(value, list) or not value:
        raise InputProblem("text must be a string or a non-empty list of strings.", "/text")
    if len(value) > MAX_INSTANCES:
        raise InputProblem(f"text has {len(value)} entries; at most {MAX_INSTANCES} are accepted.", "/text")
    for index, text in enumerate(value):
        if not isinstance(text, str):
            raise InputProblem(f"text[{index}] must be a string.", f"/text/{index}")
    return value, False


class _Columns:
    def __init__(self, manifest: Mapping[str, Any]) -> None:
        features = [Feature.from_json(body) for body in manifest["features"]]
        self._encoder = RowEncoder(features)
        required = [one.name for one in features if one.required]
        optional = [one.name for one in features if not one.required]
        # Models from earlier versions don't name the columns that they left out.
        others = [*required, manifest["target"], *manifest.get("other_columns", ())]
        self._misspelt = MisspeltColumns(optional, others, are_all_known="other_columns" in manifest)

    def encode(self, instances: Sequence[Mapping[str, Any]]) -> np.ndarray:
        rows = np.empty((len(instances), self._encoder.width), dtype=np.float64)
        checked: dict[str, bool] = {}
        for index, instance in enumerate(instances):
            if not self._misspelt.are_named_in(instance) and (found := self._misspelt.first_in(instance, checked)):
                name, column = found
                advice = f"did you mean '{column}'? Write null for a value that is missing."
                raise problem_at(index, name, f"is not a column of this model; {advice}")
            try:
                self._encoder.encode(instance, rows[index])
            except ValueProblem as problem:
                raise problem_at(index, problem.column, str(problem)) from None
        return rows


class Regressor:
    """Predicts numbers from columns."""

    def __init__(self, manifest: Mapping[str, Any], booster: NativeBooster) -> None:
        self._columns = _Columns(manifest)
        self._booster = booster

    def predict(self, instances: Sequence[Mapping[str, Any]]) -> list[Any]:
        """See `Model`."""
        return self._booster.predict(self._columns.encode(instances))[:, 0].tolist()


class Classifier:
    """Predicts labels with probabilities from columns."""

    def __init__(self, manifest: Mapping[str, Any], booster: NativeBooster) -> None:
        self._columns = _Columns(manifest)
        self._booster = booster
        self._labels = Labels(manifest["classes"])

    def predict(self, instances: Sequence[Mapping[str, Any]]) -> list[Any]:
        """See `Model`."""
        scores = self._booster.predict(self._columns.encode(instances))
        # Two classes share one output: the probability of the second.
        return self._labels.present(np.hstack([1 - scores, scores]) if scores.shape[1] == 1 else scores)
