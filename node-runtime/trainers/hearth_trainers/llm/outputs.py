"""Writes the results of a run: the adapter, and a merged model that can be served."""

from __future__ import annotations

import gc
import hashlib
import shutil
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel

from ..protocol import emit, log
from .model import load_base
from .settings import Settings

_TYPES = {".json": "application/json", ".jinja": "text/plain", ".txt": "text/plain", ".md": "text/markdown"}
_SHARD = "2GB"


def write_adapter(model: Any, directory: Path, base_model: str, revision: str | None) -> None:
    """Writes `adapter/` in PEFT format. It names the base as the run did, not by a folder on this node."""
    for config in model.peft_config.values():
        config.base_model_name_or_path = base_model
        config.revision = revision
        config.inference_mode = True
    model.save_pretrained(directory / "adapter", safe_serialization=True, save_embedding_layers=False)
    (directory / "adapter" / "README.md").unlink(missing_ok=True)


def write_merged(directory: Path, base: Path, settings: Settings, model: Any | None) -> None:
    """Writes `model/` in bf16. Adapters are merged into the base as it was before quantization."""
    target = directory / "model"
    if settings.adapter == "none":
        assert model is not None
        whole = model.to("cpu", torch.bfloat16)
    else:
        log("Folding the adapter into the base in bf16.")
        plain = load_base(base, torch.bfloat16, device_map="cpu", low_cpu_mem_usage=True)
        whole = PeftModel.from_pretrained(plain, directory / "adapter").merge_and_unload()
    whole.config.use_cache = True
    whole.save_pretrained(target, safe_serialization=True, max_shard_size=_SHARD)
    generation = base / "generation_config.json"
    if generation.is_file():
        shutil.copyfile(generation, target / generation.name)
    del whole
    gc.collect()


def report_files(directory: Path) -> None:
    """Writes one `artifact` line for each file."""
    for path in sorted(one for one in directory.rglob("*") if one.is_file()):
        with path.open("rb") as stream:
            # The `llm` environment has Python 3.11 or newer.
            hashed = hashlib.file_digest(stream, "sha256")  # pyright: ignore[reportAttributeAccessIssue]
            sha256 = hashed.hexdigest()
        emit(
            "artifact",
            name=path.relative_to(directory).as_posix(),
            path=str(path),
            size_bytes=path.stat().st_size,
            sha256=sha256,
            content_type=_TYPES.get(path.suffix, "application/octet-stream"),
        )
