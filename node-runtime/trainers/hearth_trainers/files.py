"""Files that a model's own description names. Strangers write these descriptions."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_LARGEST_JSON = 256 << 20


class BadModelFile(ValueError):
    """A description names a file that is not one of the model's; the text quotes no file."""


def model_file(folder: Path, name: Any) -> Path:
    """The file of this plain name directly in `folder`: no path, no link, nothing but a regular file."""
    if not isinstance(name, str) or not name or name in (".", "..") or any(mark in name for mark in "/\\\0"):
        raise BadModelFile("the model names a file that is not in its folder")
    path = folder / name
    try:
        kind = os.lstat(path).st_mode
    except OSError:
        raise BadModelFile("the model names a file that is not in its folder") from None
    if not stat.S_ISREG(kind):
        raise BadModelFile("the model names a file that is a link or no file at all")
    return path


def read_json(folder: Path, name: str) -> Any:
    """The JSON in a file of the folder. What is wrong with it is told without a word of what it holds."""
    path = model_file(folder, name)
    if path.stat().st_size > _LARGEST_JSON:
        raise BadModelFile(f"{name} is too large")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise BadModelFile(f"{name} is not JSON") from None


@contextmanager
def unheard() -> Iterator[None]:
    """Meanwhile nothing is written to standard error: native parsers print the line that they stumble over."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
