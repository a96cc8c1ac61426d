"""The model of a folder. The library that wrote it decides which task types it serves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from generative.base import BadModel, GenerativeModel


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
        raise BadModel("the folder has neither a model_index.json nor a config.json")
    from generative.audio import load_audio_model

    return load_audio_model(folder, config)


def read_json(path: Path) -> dict[str, Any] | None:
    """Reads a description file; returns None if it doesn't exist."""
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text())
    except ValueError:
        raise BadModel(f"{path.name} is not JSON") from None
    if not isinstance(content, dict):
        raise BadModel(f"{path.name} is not a JSON object")
    return content
