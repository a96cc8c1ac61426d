"""The base model of a run that does not start from scratch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import lightgbm as lgb
import pyarrow as pa

from .errors import JobError
from .features import Feature
from .files import BadModelFile, model_file, read_json, unheard
from .protocol import log
from .run import Run


@dataclass(frozen=True)
class Base:
    """The parts of an earlier model that a run reuses: its trees, and its encoding of rows."""

    target: str
    features: list[Feature]
    classes: list[Any]
    model: str


def read_base(run: Run, task: str) -> Base | None:
    """Loads the base that the job names, or returns None."""
    folder = run.job.base_dir
    if folder is None:
        return None
    try:
        manifest = read_json(folder, "manifest.json")
        features = [Feature.from_json(one) for one in manifest["features"]]
        model = model_file(folder, manifest["model_file"]).read_text(encoding="utf-8")
        base = Base(manifest["target"], features, list(manifest.get("classes", [])), model)
        base_task = manifest["task"]
        with unheard():
            lgb.Booster(model_str=model)
    except BadModelFile as error:
        raise JobError(f"The base model cannot be read: {error}.", code="bad_base") from error
    # Other errors may quote the files, which may belong to another account.
    except (OSError, ValueError, KeyError, TypeError, AttributeError, lgb.basic.LightGBMError) as error:
        raise JobError("The base model cannot be read: its files are damaged.", code="bad_base") from error
    if base_task != task:
        raise JobError(f"The base model is not one of {task}.", code="bad_base")
    log(f"Training goes on from a model of {len(features)} columns.")
    return base


def features_of(base: Base, table: pa.Table, target: str, fitted: Sequence[Feature]) -> list[Feature]:
    """Returns the columns of the base; raises an error unless the table has
    them all, of the same kinds as those that were fitted to it."""
    if target != base.target:
        raise _mismatch(f"The base predicts '{base.target}', this run '{target}'.", target)
    found = {one.name: one for one in fitted}
    for feature in base.features:
        if feature.name not in table.column_names:
            raise _mismatch(f"The base learnt from a column '{feature.name}' that the dataset lacks.", feature.name)
        own = found.get(feature.name)
        if own and own.kind != feature.kind:
            text = f"Column '{feature.name}' is a {own.kind} here; the base learnt from a {feature.kind}."
            raise _mismatch(text, feature.name)
    return base.features


def check_classes(base: Base | None, classes: list[Any], target: str) -> None:
    """A model cannot learn more classes than it was created with."""
    if base and list(classes) != base.classes:
        raise _mismatch(f"The classes in '{target}' are not those of the base: {base.classes}.", target)


def _mismatch(text: str, column: str) -> JobError:
    return JobError(text, code="base_mismatch", column=column)
