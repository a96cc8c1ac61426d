"""The base model of a run that does not start from scratch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..datasets.cells import why_not_numbers
from ..errors import JobError
from ..files import BadModelFile, model_file, muted_stderr, read_json
from ..protocol import log, warn_about_data
from ..run import Run
from ..wording import counted
from . import lgb
from .features import CATEGORY, NUMBER, Feature
from .fitting import kind_of

_WITHOUT = "train without a base"
# We treat this share of the total gain as all of it, because rounding errors can cause a few extra splits with
# tiny gains.
_ALL_GAIN = 0.999


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
        with muted_stderr():
            lgb.Booster(model_str=model)
    except BadModelFile as error:
        raise JobError(f"The base model cannot be read: {error}.", code="bad_base") from error
    # Other errors may quote the files, which may belong to another account.
    except (OSError, ValueError, KeyError, TypeError, AttributeError, lgb.LightGBMError) as error:
        raise JobError("The base model cannot be read: its files are damaged.", code="bad_base") from error
    if base_task != task:
        raise JobError(f"The base model is not a {task} model.", code="bad_base")
    log(f"Training continues from a model with {len(features)} columns.")
    return _without_blanks(base) if run.job.format == "csv" else base


def _without_blanks(base: Base) -> Base:
    """Returns the base with trimmed names and text, as CSV files are read now; earlier versions kept the
    spaces around them.
    """
    names = _trimmed([base.target, *(feature.name for feature in base.features)])
    features = [
        replace(feature, name=name, categories=tuple(_trimmed(feature.categories)))
        for feature, name in zip(base.features, names[1:], strict=True)
    ]
    return replace(base, target=names[0], features=features, classes=_trimmed(base.classes))


def _trimmed(values: Sequence[Any]) -> list[Any]:
    """Returns the values with strings trimmed, or unchanged if two of them differ only in those spaces."""
    trimmed = [value.strip(" ") if isinstance(value, str) else value for value in values]
    return trimmed if len(set(trimmed)) == len(trimmed) else list(values)


def features_of(base: Base, table: pa.Table, written: pa.Table, target: str, ignore: Sequence[str]) -> list[Feature]:
    """Returns the base's columns. Raises an error if the table lacks one, or if it contains values of a
    different kind (an empty column is fine). `ignore` must not name any of them, because the base's trees
    read them. `written` is the whole dataset, for row numbers.
    """
    if target != base.target:
        raise _mismatch(f"The base predicts '{base.target}', but this run predicts '{target}'.", target)
    for feature in base.features:
        name = feature.name
        if name not in table.column_names:
            raise _mismatch(f"The base learned from column '{name}', which the dataset lacks.", name)
        if name in ignore:
            text = (
                f"ignore_columns names '{name}', which the base learned from. "
                f"Take it out of ignore_columns, or {_WITHOUT}."
            )
            raise _mismatch(text, name)
        column = table.column(name)
        if column.null_count < len(column) and kind_of(column.type) != feature.kind:
            raise _other_kind(feature, kind_of(column.type), written.column(name))
    return base.features


def _other_kind(feature: Feature, kind: str | None, column: pa.ChunkedArray) -> JobError:
    here = f"is a {kind} here" if kind else f"has values of type {column.type} here"
    nearly = why_not_numbers(column) if feature.kind == NUMBER and kind == CATEGORY else None
    row = pc.index(pc.is_valid(column), True).as_py()
    why = nearly or f"row {row + 1} is '{str(column[row])[:60]}'"
    text = f"Column '{feature.name}' {here}, but the base was trained on a {feature.kind} column ({why})."
    return _mismatch(text, feature.name)


def report_unknown_values(base: Base, table: pa.Table, written: pa.Table, x: np.ndarray) -> None:
    """Warns about columns of the base that are empty in `table`, or contain text that the base never saw in
    training. Raises an error if the base learned none of the values in the columns from which it predicts.
    `x` contains the encoded rows of `table`, and `written` is the whole dataset, for row numbers.
    """
    at = 0
    without: list[tuple[Feature, range]] = []
    for feature in base.features:
        positions = range(at, at + feature.width)
        is_missing = np.isnan(x[:, at])
        if is_missing.all():
            without.append((feature, positions))
        if feature.kind == CATEGORY:
            _report_texts(feature.name, table.column(feature.name), is_missing, written)
        if table.column(feature.name).null_count == table.num_rows:
            warn_about_data(
                f"Column '{feature.name}', which the base learned from, has no values; it counts as missing in every "
                "row.",
                column=feature.name,
                count=table.num_rows,
            )
        at += feature.width
    if not without:
        return
    gains = lgb.Booster(model_str=base.model).feature_importance("gain")
    lost = {feature.name: float(gains[positions.start : positions.stop].sum()) for feature, positions in without}
    if sum(lost.values()) > 0 and sum(lost.values()) >= _ALL_GAIN * gains.sum():
        ranked = sorted(lost, key=lambda name: -lost[name])
        names = [name for name in ranked if lost[name] > (1 - _ALL_GAIN) * gains.sum()] or ranked
        shown = " and ".join(f"'{name[:80]}'" for name in names[:3]) + (" and others" if len(names) > 3 else "")
        raise _mismatch(
            f"The base predicts from {shown}, but the dataset has no value there that the base learned, so the base "
            f"would add nothing: {_WITHOUT}.",
            names[0],
        )


def _report_texts(name: str, column: pa.ChunkedArray, is_missing: np.ndarray, written: pa.Table) -> None:
    unknown = column.filter(pa.array(is_missing)).drop_null()
    if len(unknown) == 0:
        return
    text = unknown[0].as_py()
    row = pc.index(written.column(name), text).as_py() + 1
    different = len(pc.unique(unknown))
    warn_about_data(
        f"{len(unknown):,} of {len(column):,} rows {'has' if len(unknown) == 1 else 'have'} text in '{name}' that the "
        f"base did not learn, such as '{text[:60]}' (row {row}; {counted(different, 'distinct value')}); it counts as "
        f"missing. To learn from {'it' if different == 1 else 'them'}, {_WITHOUT}.",
        column=name,
        count=len(unknown),
        row=row,
    )


def check_classes(base: Base | None, classes: list[Any], target: str) -> None:
    """A model cannot learn more classes than it was created with."""
    if base and list(classes) != base.classes:
        raise _mismatch(f"The classes in '{target}' are not those of the base: {base.classes}.", target)


def _mismatch(text: str, column: str) -> JobError:
    return JobError(text, code="base_mismatch", column=column)
