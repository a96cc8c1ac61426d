"""The parts that classifiers share: labels, weights, splits and metrics."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .errors import JobError
from .protocol import warn_about_data

MAX_CLASSES = 1_000
# A column with more distinct fractional numbers than this is a quantity, not a label.
MAX_FRACTIONS = 50


@dataclass(frozen=True)
class Labels:
    """The classes of a column, in order, and the class of each row as an index into them."""

    classes: list[Any]
    codes: np.ndarray


def read_labels(column: pa.ChunkedArray, name: str) -> Labels:
    """Returns the labels of a column without missing values."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        column, kind = pc.cast(column, pa.string()), pa.string()
    plain = (pa.types.is_string, pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating)
    if not any(check(kind) for check in plain):
        raise JobError(
            f"Column '{name}' cannot be a class: its values are of type {kind}.", code="not_a_class", column=name
        )
    classes = sorted(pc.unique(column).to_pylist())
    if len(classes) < 2:
        raise JobError(
            f"Column '{name}' has the same value in every row ({classes[0]!r}); at least two classes are needed.",
            code="one_class",
            column=name,
        )
    fractional = pa.types.is_floating(kind) and any(value != int(value) for value in classes)
    if len(classes) > (MAX_FRACTIONS if fractional else MAX_CLASSES):
        raise JobError(
            f"Column '{name}' has {len(classes):,} different values, too many for classes. "
            "Is it a quantity? Then tabular-regression is the model to train.",
            code="too_many_classes",
            column=name,
        )
    warn_about_like_classes(classes, name)
    codes = pc.index_in(column, pa.array(classes, kind)).to_numpy().astype(np.int64)
    return Labels(classes, codes)


def warn_about_like_classes(classes: Sequence[Any], column: str) -> None:
    """Warns about classes that differ only in case, spaces or how accents are stored, which are usually one class."""
    spellings: dict[str, list[str]] = {}
    for label in classes:
        if isinstance(label, str):
            spellings.setdefault(" ".join(unicodedata.normalize("NFC", label.casefold()).split()), []).append(label)
    like = [found for found in spellings.values() if len(found) > 1]
    if like:
        named = "; ".join(" and ".join(repr(label)[:80] for label in found) for found in like[:10])
        warn_about_data(
            f"Classes in '{column}' differ only in case, spaces or the encoding of accents and are learned as "
            f"different classes: {named}.",
            column=column,
            count=len(like),
        )


def split_by_class(labels: Labels, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns row numbers for training and validation with the same share of every class; each
    class stays in training."""
    random = np.random.default_rng(seed)
    held_out: list[np.ndarray] = []
    single: list[Any] = []
    for code, label in enumerate(labels.classes):
        rows = random.permutation(np.flatnonzero(labels.codes == code))
        if len(rows) == 1:
            single.append(label)
        held_out.append(rows[: min(round(len(rows) * fraction), len(rows) - 1)])
    if single:
        # A dataset may have a thousand such classes, so one warning covers all of them.
        named = ", ".join(repr(label)[:80] for label in single[:10]) + (", ..." if len(single) > 10 else "")
        warn_about_data(f"Classes with one row only cannot be validated: {named}.", count=len(single))
    check = np.sort(np.concatenate(held_out))
    if len(check) == 0:
        # Every class is tiny, so one row of the largest class is held out.
        largest = np.bincount(labels.codes).argmax()
        rows = np.flatnonzero(labels.codes == largest)
        if len(rows) < 2:
            raise JobError("Every class has only one row; nothing can be learned from that.", code="too_few_rows")
        check = rows[:1]
    return np.setdiff1d(np.arange(len(labels.codes)), check), check


def class_weights(labels: Labels, rows: np.ndarray, mode: str) -> np.ndarray | None:
    """Returns a weight per class: None for equal weights, otherwise inverse to
    its frequency in `rows`."""
    if mode != "balanced":
        return None
    counts = np.bincount(labels.codes[rows], minlength=len(labels.classes))
    return len(rows) / (len(labels.classes) * counts)


def class_metrics(labels: Labels, rows: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
    """Returns a classifier's metrics over `rows`; f1 is the mean over the classes that occur."""
    actual = labels.codes[rows]
    predicted = probabilities.argmax(axis=1)
    scores = [_f1(actual == code, predicted == code) for code in np.union1d(actual, predicted)]
    # On the order of rounding errors, so that a probability of zero has a finite loss.
    least = np.finfo(probabilities.dtype).eps
    likely = np.clip(probabilities, least, 1 - least)[np.arange(len(rows)), actual]
    return {
        "accuracy": float((actual == predicted).mean()),
        "f1": float(np.mean(scores)),
        "log_loss": float(-np.log(likely).mean()),
    }


def _f1(is_actual: np.ndarray, is_predicted: np.ndarray) -> float:
    both = int((is_actual & is_predicted).sum())
    return 2 * both / int(is_actual.sum() + is_predicted.sum())


def present(labels: Labels, probabilities: np.ndarray) -> list[dict[str, Any]]:
    """Returns predictions in the format of the model server."""
    from .schemas import label_name

    names = [label_name(label) for label in labels.classes]
    return [
        {"label": labels.classes[int(row.argmax())], "probabilities": dict(zip(names, row.tolist(), strict=False))}
        for row in probabilities
    ]
