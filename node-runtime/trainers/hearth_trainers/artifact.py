"""Writes a finished model."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .checkpoint import replace_file
from .protocol import emit
from .run import Outcome

FORMAT = "hearth-tabular/1"
_TYPES = {".json": "application/json", ".txt": "text/plain"}
_LIBRARIES = ("lightgbm", "scikit-learn", "numpy", "pyarrow")


def write_artifacts(directory: Path, outcome: Outcome) -> None:
    """Writes the model's files first and the manifest last: a directory
    with a manifest is complete."""
    directory.mkdir(parents=True, exist_ok=True)
    manifest = json.dumps(_manifest(outcome), indent=2, ensure_ascii=False).encode()
    for name, body in {**outcome.files, "manifest.json": manifest}.items():
        path = directory / name
        replace_file(path, body)
        emit(
            "artifact",
            name=name,
            path=str(path),
            size_bytes=len(body),
            sha256=hashlib.sha256(body).hexdigest(),
            content_type=_TYPES.get(path.suffix, "application/octet-stream"),
        )


def _manifest(outcome: Outcome) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "task": outcome.task,
        "target": outcome.target,
        "model_file": outcome.model_file,
        **outcome.extra,
        "metrics": outcome.metrics,
        "input_schema": outcome.input_schema,
        "output_schema": outcome.output_schema,
        "example_input": outcome.example_input,
        "example_output": outcome.example_output,
        "libraries": {name: version(name) for name in _LIBRARIES},
    }
