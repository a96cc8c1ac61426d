"""Reads the rows of a classification run: texts and their labels, split into training and held-out rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..datasets.cells import MISSING
from ..errors import JobError, no_such_column, without_values
from ..job import Job
from ..labels import MAX_CLASSES, Labels, split_by_class, warn_about_like_classes
from ..llm.rows import read_rows
from ..protocol import log, warn_about_data
from ..schemas import label_name
from ..wording import counted
from .pairs import columns_left_out, text_in


@dataclass(frozen=True)
class LabelledTexts:
    """A dataset's texts with their labels, and the indices of the training and held-out rows."""

    texts: list[str]
    # The row of each text in the dataset, from 1.
    rows: list[int]
    labels: Labels
    learn: np.ndarray
    check: np.ndarray
    # The columns that the run does not name, in the format of its metrics.
    left_out: list[dict[str, str]]


def read_labelled_texts(job: Job, val_set_size: float, seed: int) -> LabelledTexts:
    """Reads the columns that the run names, and splits the rows."""
    log(f"Reading the dataset ({job.format}).")
    rows = read_rows(job)
    columns = [str(job.param(name)) for name in ("text_column", "target_column")]
    for column, parameter in zip(columns, ("text_column", "target_column"), strict=True):
        if not any(column in row for row in rows[:1000]):
            raise no_such_column(column, list(rows[0]), parameter)
    texts, names, places = [], [], []
    # For each of the two columns, the rows without a value; a row without a class needs no text.
    lacking: dict[str, list[int]] = {column: [] for column in columns[::-1]}
    for place, row in enumerate(rows, 1):
        name = _label_in(row, columns[1], place, has_marks=job.format == "csv")
        if name is None:
            lacking[columns[1]].append(place)
        elif _is_blank(row.get(columns[0])):
            lacking[columns[0]].append(place)
        else:
            texts.append(text_in(row, columns[0], place))
            names.append(name)
            places.append(place)
    if not names:
        if len(lacking[columns[1]]) == len(rows):
            raise without_values(columns[1], len(rows))
        raise JobError(
            f"No row has both text in '{columns[0]}' and a class in '{columns[1]}'; name other columns as "
            "text_column and target_column.",
            code="no_values",
            column=columns[0],
        )
    for column, without in lacking.items():
        if without:
            warn_about_data(
                f"Left out {counted(len(without), 'row')} without a value in '{column}'; the first is row "
                f"{without[0]}.",
                column=column,
                count=len(without),
                row=without[0],
            )
    labels = _labels(names, columns[1])
    learn, check = _split(texts, labels, val_set_size, seed)
    log(f"The dataset has {len(texts):,} rows of {len(labels.classes)} classes; {len(check):,} rows are held out.")
    return LabelledTexts(texts, places, labels, learn, check, columns_left_out(rows, columns))


def _is_blank(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _label_in(row: dict[str, Any], column: str, place: int, *, has_marks: bool) -> str | None:
    """Returns a row's class, or None if it has none. With `has_marks`, strings that mean a missing value are
    not classes; other formats have null for that.
    """
    value = row.get(column)
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    if has_marks and isinstance(value, str):
        # In a CSV file a space may follow each delimiter.
        value = value.strip(" ")
        if value in MISSING:
            return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, (str, bool, int)):
        return label_name(value)
    raise JobError(
        f"Row {place}: the column '{column}' must contain a class (a text, a whole number or a boolean), but here it "
        f"is of type {type(value).__name__}: {str(value)[:60]}",
        code="not_a_class",
        column=column,
        row=place,
    )


def _labels(names: list[str], column: str) -> Labels:
    classes = sorted(set(names), key=lambda name: (len(name), name) if name.isdecimal() else (0, name))
    if len(classes) < 2:
        found = f"the same value in every row ('{classes[0][:60]}')"
        raise JobError(
            f"Column '{column}' has {found}; at least two classes are needed.", code="one_class", column=column
        )
    if len(classes) > MAX_CLASSES:
        raise JobError(
            f"Column '{column}' has {len(classes):,} different values; a model has at most {MAX_CLASSES:,} classes.",
            code="too_many_classes",
            column=column,
        )
    warn_about_like_classes(classes, column)
    place = {name: code for code, name in enumerate(classes)}
    return Labels(classes, np.array([place[name] for name in names]))


def _split(texts: list[str], labels: Labels, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Splits by distinct text, so that no text is in both parts."""
    first: dict[str, int] = {}
    owner = np.array([first.setdefault(text, row) for row, text in enumerate(texts)])
    firsts = np.array(sorted(first.values()))
    _, chosen = split_by_class(Labels(labels.classes, labels.codes[firsts]), fraction, seed)
    is_held_out = np.isin(owner, firsts[chosen])
    return np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)
