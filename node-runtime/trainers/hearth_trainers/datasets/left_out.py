"""Names the dataset columns that a model does not learn from, with the reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..protocol import log

# A run's metrics are always shown in full, so they name at most this many columns; the log names all.
MAX_REPORTED = 50
_MAX_CHARS = 200
# A manifest names at most this many of the columns that a model doesn't use, and none with a longer name.
MAX_OTHER_COLUMNS = 1_000
MAX_OTHER_COLUMN_CHARS = 200


@dataclass(frozen=True)
class LeftOut:
    """A column that the model does not learn from."""

    column: str
    reason: str


def describe_left_out(columns: Sequence[LeftOut]) -> list[dict[str, str]]:
    """Logs the columns, and returns them as they appear in the run's metrics."""
    for one in columns:
        log(f"Column '{one.column}' is left out: {one.reason}.")
    return [{"column": one.column[:_MAX_CHARS], "reason": one.reason[:_MAX_CHARS]} for one in columns[:MAX_REPORTED]]


def all_but(names: Sequence[str], used: Sequence[str], reason: str) -> list[LeftOut]:
    """Returns the columns that are not among the used ones."""
    excluded = set(used)
    return [LeftOut(name, reason) for name in names if name not in excluded]


def other_columns(names: Sequence[str], target: str, features: Sequence[str]) -> list[str]:
    """Returns the columns of a table that a model neither uses nor predicts, for its manifest. The server
    treats any other name as a misspelling if it resembles the name of a feature.
    """
    used = {target, *features}
    others = [name for name in names if name not in used and len(name) <= MAX_OTHER_COLUMN_CHARS]
    return others[:MAX_OTHER_COLUMNS]
