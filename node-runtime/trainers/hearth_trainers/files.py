"""Opens the files that a model's own description names. These descriptions are untrusted."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_MAX_JSON_BYTES = 256 << 20


class BadModelFile(ValueError):
    """A description names a file outside the model; the message quotes no file content."""


def model_file(folder: Path, name: Any) -> Path:
    """Returns the regular file of this name directly in `folder`; paths and links are refused."""
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
    """Reads JSON from a file in the folder. Errors never quote its content."""
    path = model_file(folder, name)
    if path.stat().st_size > _MAX_JSON_BYTES:
        raise BadModelFile(f"{name} is too large")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise BadModelFile(f"{name} is not JSON") from None


@contextmanager
def muted_stderr() -> Generator[None, None, None]:
    """Suppresses standard error in this context: native parsers print the line that they fail on."""
    sys.stderr.flush()
    saved = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
