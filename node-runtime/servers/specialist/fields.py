"""Reads the fields of a request; each error names the field and what was expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from answers import InputProblem
from json_values import is_list

if TYPE_CHECKING:
    from specialist.texts import Tokens

MAX_TEXTS = 2_048


def texts_of(body: Mapping[str, Any], name: str) -> tuple[list[str], bool]:
    """Returns the texts of a field, and whether it contains a single text instead of a list."""
    value = body.get(name)
    if isinstance(value, str):
        return [value], True
    if not is_list(value) or not value:
        raise InputProblem(f"{name} must be a string or a non-empty list of strings", f"/{name}")
    return list_of(value, name), False


def list_of(value: Any, name: str) -> list[str]:
    """Checks a list of texts."""
    if not is_list(value) or not value:
        raise InputProblem(f"{name} must be a non-empty list of strings", f"/{name}")
    if len(value) > MAX_TEXTS:
        raise InputProblem(f"{name} has {len(value)} texts; at most {MAX_TEXTS} are accepted", f"/{name}")
    for index, text in enumerate(value):
        if not isinstance(text, str):
            raise InputProblem(f"{name}[{index}] must be a string", f"/{name}/{index}")
    return value


def text_of(body: Mapping[str, Any], name: str) -> str:
    """Returns a required string field."""
    value = body.get(name)
    if not isinstance(value, str):
        raise InputProblem(f"{name} must be a string", f"/{name}")
    return value


def count_of(body: Mapping[str, Any], name: str) -> int | None:
    """Returns an optional field that contains a positive integer."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputProblem(f"{name} must be an integer of at least 1", f"/{name}")
    return value


def truncates(body: Mapping[str, Any]) -> bool:
    """Returns whether to truncate texts that are too long."""
    value = body.get("truncate")
    if value is None:
        return True
    if not isinstance(value, bool):
        raise InputProblem("truncate must be true or false", "/truncate")
    return value


def refuse_cut(texts: Sequence[Tokens], paths: Sequence[str], most: int) -> None:
    """Raises `InputProblem` for the first text that is longer than the model accepts."""
    for tokens, path in zip(texts, paths, strict=True):
        if tokens.is_cut:
            name = path.removeprefix("/").replace("/", "[") + ("]" if path.count("/") > 1 else "")
            raise InputProblem(f"{name} is longer than the {most} tokens that this model accepts", path)


def paths_of(name: str, count: int, *, is_one: bool) -> list[str]:
    """Returns the JSON pointers of a field's texts."""
    return [f"/{name}"] if is_one else [f"/{name}/{index}" for index in range(count)]
