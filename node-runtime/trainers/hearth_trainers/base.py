"""A model that a run goes on from, instead of starting from nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from .errors import JobError
from .features import Feature
from .fitting import fit_features
from .protocol import log
from .run import Run


@dataclass(frozen=True)
class Base:
    """What is kept of an earlier model: its trees, and how rows become numbers for them."""

    target: str
    features: list[Feature]
    classes: list[Any]
    model: str


def read_base(run: Run, task: str) -> Base | None:
    """The base that the job names, or nothing."""
    folder = run.job.base_dir
    if folder is None:
        return None
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        features = [Feature.from_json(one) for one in manifest["features"]]
        model = Path(folder, manifest["model_file"]).read_text(encoding="utf-8")
        base = Base(manifest["target"], features, list(manifest.get("classes", [])), model)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise JobError(f"The base model cannot be read: {error}", code="bad_base") from error
    if manifest["task"] != task:
        raise JobError(f"The base model is one of {manifest['task']}, not of {task}.", code="bad_base")
    log(f"Training goes on from a model of {len(features)} columns.")
    return base


def features_of(base: Base, table: pa.Table, target: str) -> list[Feature]:
    """The columns of the base, if the table has them all with the same kind of values."""
    if target != base.target:
        raise _mismatch(f"The base predicts '{base.target}', this run '{target}'.", target)
    found = {one.name: one for one in fit_features(table, target, [])}
    for feature in base.features:
        if feature.name not in table.column_names:
            raise _mismatch(f"The base learnt from a column '{feature.name}' that the dataset lacks.", feature.name)
        own = found.get(feature.name)
        if own and own.kind != feature.kind:
            text = f"Column '{feature.name}' is a {own.kind} here; the base learnt from a {feature.kind}."
            raise _mismatch(text, feature.name)
    return base.features


def check_classes(base: Base | None, classes: list[Any], target: str) -> None:
    """A model cannot learn to tell more classes than it was made for."""
    if base and list(classes) != base.classes:
        raise _mismatch(f"The classes in '{target}' are not those of the base: {base.classes}.", target)


def _mismatch(text: str, column: str) -> JobError:
    return JobError(text, code="base_mismatch", column=column)
