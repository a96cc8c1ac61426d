"""Converts a Whisper model's safetensors to the format that CTranslate2 reads; see README.md."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
os.environ["HF_HUB_OFFLINE"] = "1"

from ctranslate2.converters import TransformersConverter
from transformers import WhisperFeatureExtractor, WhisperTokenizerFast

from asgi import refuse_weights
from weight_faults import is_fault_of_weights, reason_of


def convert(folder: Path, out: Path) -> None:
    """Writes the unquantized weights in float32, with the tokenizer and the audio feature settings."""
    # The converter creates its output folder itself, but `out` already exists.
    converted = out / "made"
    TransformersConverter(str(folder)).convert(str(converted), quantization="float32")
    for file in converted.iterdir():
        file.rename(out / file.name)
    converted.rmdir()
    _progress(80)
    WhisperTokenizerFast.from_pretrained(folder, local_files_only=True).backend_tokenizer.save(
        str(out / "tokenizer.json")
    )
    WhisperFeatureExtractor.from_pretrained(folder, local_files_only=True).save_pretrained(out)


def _progress(percent: int) -> None:
    print(json.dumps({"event": "progress", "percent": percent}), flush=True)


def main() -> None:
    """Converts one model."""
    parser = argparse.ArgumentParser(description="Converts a Whisper model's safetensors for CTranslate2.")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", str(options.threads))
    _progress(20)
    try:
        convert(options.model, options.out)
    except Exception as error:
        if is_fault_of_weights(error):
            refuse_weights(reason_of(error))
        raise


if __name__ == "__main__":
    main()
