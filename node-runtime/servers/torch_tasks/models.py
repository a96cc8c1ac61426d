"""The application for the model in a folder; its config.json says which task it serves."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from data_urls import MAX_BODY
from json_values import is_object
from sequential_app import SequentialApp, SequentialModel

IMAGE_TO_TEXT = "vision-encoder-decoder"
# Class names of encoders; the class names of text generators end with ForConditionalGeneration or MTModel.
ENCODERS = re.compile(r"(?:For(?:SequenceClassification|MaskedLM|PreTraining)|[a-z]Model)$")


def open_app(folder: Path, threads: int) -> Any:
    """Loads a text encoder, which answers many requests at once, or a model that reads images or translates,
    which answers one at a time. Raises `BadModel` for an encoder that cannot be served.
    """
    path = folder / "config.json"
    # Without config.json, transformers reports what is missing.
    config: Any = json.loads(path.read_text()) if path.is_file() else {}
    if is_object(config) and _encodes(config):
        return _encoder(folder, threads)
    return SequentialApp(_writer(folder, config, threads), MAX_BODY)


def _encodes(config: Mapping[str, Any]) -> bool:
    [architecture, *_] = config.get("architectures") or [""]
    writes = config.get("model_type") == IMAGE_TO_TEXT or config.get("is_encoder_decoder") is True
    return not writes and ENCODERS.search(str(architecture)) is not None


def _encoder(folder: Path, threads: int) -> Any:
    from specialist.app import SpecialistApp
    from specialist.layout import read_layout
    from specialist.texts import Tokenization
    from specialist.torch_engine import TorchEngine

    layout = read_layout(folder)
    return SpecialistApp(layout, Tokenization(layout, [folder]), TorchEngine(layout, threads))


def _writer(folder: Path, config: Any, threads: int) -> SequentialModel:
    if is_object(config) and config.get("model_type") == IMAGE_TO_TEXT:
        from torch_tasks.reading import Reader

        return Reader(folder, threads)
    from torch_tasks.translation import Translator

    return Translator(folder, threads)
