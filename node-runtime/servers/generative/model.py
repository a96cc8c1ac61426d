"""The model of a folder: what made it decides which task types it serves."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from generative.files import OutputFile
from generative.job import Job


class BadModel(Exception):
    """The folder is no model that this server can serve; the text says why."""


@dataclass
class Made:
    """The output of a generation."""

    files: list[OutputFile]
    metadata: dict[str, Any] = field(default_factory=dict)


# Checks the fields of a request, and gives what then generates.
Prepare = Callable[[Mapping[str, Any]], Callable[[Job], Made]]


@dataclass
class GenerativeModel:
    """The pipeline of each task type; the first is the natural task of the weights."""

    name: str
    tasks: Mapping[str, Prepare]


def load_model(folder: Path, threads: int) -> GenerativeModel:
    """Loads the model of a folder; diffusers describes it in `model_index.json`, transformers in `config.json`."""
    import torch

    torch.set_num_threads(threads)
    index = read_json(folder / "model_index.json")
    if index is not None:
        from generative.pipelines import load_pipeline

        return load_pipeline(folder, index)
    config = read_json(folder / "config.json")
    if config is None:
        raise BadModel("there is neither a model_index.json nor a config.json")
    from generative.sounds import load_sounds

    return load_sounds(folder, config)


def read_json(path: Path) -> dict[str, Any] | None:
    """Reads a description; None when there is none."""
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text())
    except ValueError:
        raise BadModel(f"{path.name} is not JSON") from None
    if not isinstance(content, dict):
        raise BadModel(f"{path.name} is not an object")
    return content

