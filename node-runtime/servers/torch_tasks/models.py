"""The model of a folder: its config.json says which task it serves."""

from __future__ import annotations

import json
from pathlib import Path

from turns import TurnModel

PICTURES = "vision-encoder-decoder"


def load_model(folder: Path, threads: int) -> TurnModel:
    """Loads a model that reads pictures, or one that translates texts."""
    path = folder / "config.json"
    # Without the file transformers says what is missing.
    config = json.loads(path.read_text()) if path.is_file() else None
    if isinstance(config, dict) and config.get("model_type") == PICTURES:
        from torch_tasks.reading import Reader

        return Reader(folder, threads)
    from torch_tasks.translation import Translator

    return Translator(folder, threads)
