"""Reads the rows of an embedding run: texts and their matches, split into training and held-out rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..datasets.left_out import all_but, describe_left_out
from ..errors import JobError, no_such_column
from ..job import Job
from ..llm.rows import read_rows
from ..protocol import log


@dataclass(frozen=True)
class Pair:
    """A row, as indices of its texts."""

    anchor: int
    positive: int
    negative: int | None


@dataclass(frozen=True)
class Pairs:
    """A dataset's distinct texts, the training rows, and the held-out rows."""

    texts: list[str]
    # The row in which each text first appears, from 1.
    rows: list[int]
    learn: list[Pair]
    check: list[Pair]
    # The columns that the run does not name, in the format of its metrics.
    left_out: list[dict[str, str]]


def read_pairs(job: Job, val_set_size: float, seed: int) -> Pairs:
    """Reads the columns that the run names, and splits the rows."""
    kind = job.param("dataset_type")
    log(f"Reading the dataset ({job.format}) as {kind}.")
    roles = ["anchor", "positive", *(["negative"] if kind == "triplets" else [])]
    columns = [str(job.param(f"{role}_column")) for role in roles]
    numbers: dict[str, int] = {}
    pairs = []
    firsts: list[int] = []
    rows = read_rows(job)
    for role, column in zip(roles, columns, strict=True):
        if not any(column in row for row in rows[:1000]):
            raise no_such_column(column, list(rows[0]), f"{role}_column")
    for place, row in enumerate(rows, 1):
        texts = [text_in(row, column, place) for column in columns]
        anchor, positive, *negative = (numbers.setdefault(text, len(numbers)) for text in texts)
        firsts += [place] * (len(numbers) - len(firsts))
        pairs.append(Pair(anchor, positive, negative[0] if negative else None))
    learn, check = _split(pairs, val_set_size, seed)
    if len({(one.positive, one.negative) for one in learn}) < (1 if kind == "triplets" else 2):
        raise JobError(
            f"Too few rows to learn from: {len(learn)} of {len(pairs)}. The model learns to distinguish pairs, so it "
            "needs at least two different ones in addition to the part that is held out.",
            code="too_few_rows",
        )
    log(f"The dataset has {len(pairs):,} rows with {len(numbers):,} different texts; {len(check):,} rows are held out.")
    return Pairs(list(numbers), firsts, learn, check, columns_left_out(rows, columns))


def columns_left_out(rows: list[dict[str, Any]], used: list[str]) -> list[dict[str, str]]:
    """Logs the columns that the run does not name, and returns them in the format of its metrics."""
    names: dict[str, None] = {name: None for row in rows[:1000] for name in row}
    return describe_left_out(all_but(list(names), used, f"the model learns from {' and '.join(used)} alone"))


def text_in(row: dict[str, Any], column: str, place: int) -> str:
    """Returns a row's text in a column; refuses anything else with an error that names the row."""
    value = row.get(column)
    if isinstance(value, str) and value.strip():
        return value
    what = (
        "missing"
        if value is None
        else "empty"
        if isinstance(value, str)
        else f"of type {type(value).__name__}: {str(value)[:60]}"
    )
    raise JobError(
        f"Row {place}: the column '{column}' must contain text, but here it is {what}.",
        code="not_a_text",
        column=column,
        row=place,
    )


def _split(pairs: list[Pair], fraction: float, seed: int) -> tuple[list[Pair], list[Pair]]:
    """Holds out whole groups of rows with the same anchor, so that no anchor is in both parts."""
    if fraction == 0:
        return pairs, []
    anchors = np.random.default_rng([seed, 0]).permutation(sorted({one.anchor for one in pairs})).tolist()
    if len(anchors) < 2:
        raise JobError(
            "val_set_size needs rows with at least two different anchors; with 0 nothing is held out.",
            code="too_few_rows",
        )
    chosen = set(anchors[: min(len(anchors) - 1, max(1, round(len(anchors) * fraction)))])
    return [one for one in pairs if one.anchor not in chosen], [one for one in pairs if one.anchor in chosen]
