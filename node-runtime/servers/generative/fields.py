"""Reads the fields of a request; each error names the field and what was expected."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from answers import InputProblem

MAX_TEXT = 10_000
# JSON numbers are exact up to this value in every language.
MAX_SEED = 2**53 - 1
MIN_SIDE, MAX_SIDE = 16, 2_048
MAX_STEPS = 1_000
MAX_FRAMES = 1_000


def text_of(fields: Mapping[str, Any], name: str) -> str:
    """Returns a string that is not empty."""
    value = optional_text_of(fields, name)
    if value is None or not value.strip():
        raise InputProblem(f"{name} must be a non-empty string", f"/{name}")
    return value


def optional_text_of(fields: Mapping[str, Any], name: str) -> str | None:
    """Returns a string, if present."""
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise InputProblem(f"{name} must be a string", f"/{name}")
    if len(value) > MAX_TEXT:
        raise InputProblem(f"{name} has {len(value)} characters; at most {MAX_TEXT} are accepted", f"/{name}")
    return value


def integer_of(fields: Mapping[str, Any], name: str, least: int, most: int) -> int | None:
    """Returns an integer within bounds, if present."""
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InputProblem(f"{name} must be an integer from {least} to {most}", f"/{name}")
    return value


def number_of(fields: Mapping[str, Any], name: str, least: float, most: float) -> float | None:
    """Returns a number within bounds, if present."""
    value = fields.get(name)
    if value is None:
        return None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not least <= value <= most:
        raise InputProblem(f"{name} must be a number from {least:g} to {most:g}", f"/{name}")
    return float(value)


def choice_of(fields: Mapping[str, Any], name: str, choices: Sequence[str]) -> str:
    """Returns one of the choices; the first one when the field is absent."""
    value = fields.get(name)
    if value is None:
        return choices[0]
    if value not in choices:
        raise InputProblem(f"{name} must be one of {', '.join(choices)}", f"/{name}")
    return value


def side_of(fields: Mapping[str, Any], name: str, multiple: int) -> int | None:
    """Returns a width or height that is a multiple of what the pipeline requires."""
    value = integer_of(fields, name, MIN_SIDE, MAX_SIDE)
    if value is not None and value % multiple:
        raise InputProblem(f"{name} must be a multiple of {multiple} for this model, and {value} is not", f"/{name}")
    return value
