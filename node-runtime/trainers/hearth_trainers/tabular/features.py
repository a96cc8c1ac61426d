"""Encodes rows as numbers. Trainers and the model server use it, so it imports no library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from math import nan
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

if TYPE_CHECKING:
    import numpy as np

NUMBER, BOOLEAN, DATETIME, CATEGORY = "number", "boolean", "datetime", "category"
# A timestamp becomes four numbers: days since 1970, month, weekday, hour.
DATETIME_WIDTH = 4
_DAY = 86_400.0


class ValueProblem(ValueError):
    """A value that the model cannot use; `column` names its column, and the message states what it must be."""

    def __init__(self, column: str, text: str) -> None:
        super().__init__(text)
        self.column = column


@dataclass(frozen=True)
class Feature:
    """One input column of a model."""

    name: str
    kind: str
    required: bool
    categories: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """How many numbers encode the column."""
        return DATETIME_WIDTH if self.kind == DATETIME else 1

    def as_json(self) -> dict[str, Any]:
        """Returns the feature as it is stored in a manifest."""
        body: dict[str, Any] = {"name": self.name, "kind": self.kind, "required": self.required}
        return {**body, "categories": list(self.categories)} if self.kind == CATEGORY else body

    @staticmethod
    def from_json(body: Mapping[str, Any]) -> Feature:
        """Reads a feature from a manifest."""
        return Feature(body["name"], body["kind"], body["required"], tuple(body.get("categories", ())))


class RowEncoder:
    """Encodes rows that arrive as JSON, in the same way as a trainer encodes its table."""

    def __init__(self, features: Sequence[Feature]) -> None:
        self._codes = [_codes_of(feature.categories) for feature in features]
        self._features = list(features)
        self.width = sum(feature.width for feature in features)

    def encode(self, row: Mapping[str, Any], out: np.ndarray) -> None:
        """Fills `out`, a vector of `width`, with one row."""
        at = 0
        for feature, codes in zip(self._features, self._codes, strict=True):
            value = row.get(feature.name)
            if value is None:
                if feature.required:
                    problem = "must not be null" if feature.name in row else "is missing"
                    raise ValueProblem(feature.name, problem)
                out[at : at + feature.width] = nan
            elif feature.kind == NUMBER:
                out[at] = _number(feature.name, value)
            elif feature.kind == CATEGORY:
                if not isinstance(value, str):
                    raise ValueProblem(feature.name, f"must be a string, not {name_of(value)}")
                # A value that did not occur in training counts as missing.
                code = codes.get(value)
                out[at] = codes.get(_plain(value), nan) if code is None else code
            elif feature.kind == BOOLEAN:
                if not isinstance(value, bool):
                    raise ValueProblem(feature.name, f"must be true or false, not {name_of(value)}")
                out[at] = float(value)
            else:
                out[at : at + DATETIME_WIDTH] = moment_parts(_moment(feature.name, value))
            at += feature.width


def _codes_of(categories: Sequence[str]) -> dict[str, float]:
    """Returns the codes of categories. Surrounding whitespace and the encoding of accents matter only if two
    categories differ in nothing else.
    """
    codes = {text: float(code) for code, text in enumerate(categories)}
    for text, code in list(codes.items()):
        codes.setdefault(_plain(text), code)
    return codes


def _plain(text: str) -> str:
    return normalize("NFC", text.strip())


def moment_parts(moment: datetime) -> tuple[float, float, float, float]:
    """Returns the numbers of a timestamp. Timestamps without a zone are in UTC."""
    zoned = moment.replace(tzinfo=timezone.utc) if moment.tzinfo is None else moment.astimezone(timezone.utc)
    return zoned.timestamp() / _DAY, float(zoned.month), float(zoned.weekday()), float(zoned.hour)


def name_of(value: Any) -> str:
    """Names the type of a JSON value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "a list" if isinstance(value, list) else "an object"


def _number(name: str, value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    raise ValueProblem(name, f"must be a number, not {name_of(value)}")


def _moment(name: str, value: Any) -> datetime:
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            pass
    raise ValueProblem(name, "must be a date such as 2026-03-01 or 2026-03-01T12:00:00Z")
