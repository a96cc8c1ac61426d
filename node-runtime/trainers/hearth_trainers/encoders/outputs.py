"""Writes a trained encoder as a folder that can be served, and trained further."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from ..job import Job
from ..llm.outputs import write_adapter
from ..llm.settings import LoopSettings
from .base import Encoder

_TOKENIZER = (
    "tokenizer.json tokenizer_config.json special_tokens_map.json added_tokens.json vocab.txt vocab.json merges.txt "
    "sentencepiece.bpe.model spm.model spiece.model"
).split()
# The files in which a sentence-transformers folder describes how vectors are computed.
_SENTENCE_LAYOUT = ("sentence_bert_config.json", "config_sentence_transformers.json", "modules.json")
_SHARD = "2GB"


def write_encoder(job: Job, settings: LoopSettings, encoder: Encoder, model: Any) -> Path:
    """Writes the weights with the LoRA layers merged, the LoRA layers separately, and the base's tokenizer."""
    directory = job.output_dir
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True, exist_ok=True)
    whole = model.to("cpu")
    if settings.adapter != "none":
        write_adapter(whole, directory, str(job.param("base_model")), job.base_revision)
        whole = whole.merge_and_unload()
    whole.save_pretrained(directory, max_shard_size=_SHARD)
    for name in _TOKENIZER:
        _copy_file(encoder.folder, directory, name)
    if encoder.converted_tokenizer:
        _copy_file(Path(encoder.converted_tokenizer.name), directory, "tokenizer.json")
    return directory


def write_sentence_layout(directory: Path, encoder: Encoder) -> None:
    """Writes how vectors are computed: as the base specifies, or else as the mean of the tokens, scaled to
    length 1, as the server does.
    """
    for name in _SENTENCE_LAYOUT:
        _copy_file(encoder.folder, directory, name)
    modules = directory / "modules.json"
    if modules.is_file():
        for module in json.loads(modules.read_text(encoding="utf-8")):
            # Reading the layout has already rejected paths that lead out of the folder.
            if str(module.get("type")).endswith(".Pooling"):
                _copy_file(encoder.folder, directory, f"{module.get('path', '')}/config.json".lstrip("/"))
        return
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    described = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (path, kind) in enumerate(kinds.items())
    ]
    modules.write_text(json.dumps(described, indent=2), encoding="utf-8")
    width = encoder.layout.config.get("hidden_size") or encoder.layout.config.get("dim")
    pooling = {"word_embedding_dimension": width, "pooling_mode_mean_tokens": True, "include_prompt": True}
    (directory / "1_Pooling").mkdir()
    (directory / "1_Pooling" / "config.json").write_text(json.dumps(pooling, indent=2), encoding="utf-8")


def _copy_file(folder: Path, directory: Path, name: str) -> None:
    """Copies a file if the folder has it; an already written file is kept."""
    source, target = folder / name, directory / name
    if source.is_file() and not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
