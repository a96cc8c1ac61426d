"""A translation model in a Hugging Face folder."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from answers import InputProblem
from light_torch import without_compiler
from torch_tasks.languages import Languages
from torch_tasks.writer import Writer

with without_compiler():
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

# Characters per token of the model's limit. Longer text is cut before tokenization.
CHARACTERS = 16


class Translator:
    """Weights and tokenizer; one translation at a time."""

    task = "translation"

    # The first access imports parts of the library.
    @without_compiler()
    def __init__(self, folder: Path, threads: int) -> None:
        torch.set_num_threads(threads)
        self._tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self._writer = Writer.load(AutoModelForSeq2SeqLM, folder)
        self._max_tokens = min(self._writer.positions, self._tokenizer.model_max_length)
        self._languages = Languages(self._tokenizer)

    @property
    def facts(self) -> dict[str, Any]:
        """The facts that the health check reports about the model."""
        return {"max_tokens": self._max_tokens}

    def probe(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Adds one of the model's languages to the first request after a load, whose sender doesn't know
        them.
        """
        return {"target_language": self._languages.first, **body}

    @torch.inference_mode()
    def __call__(self, body: Mapping[str, Any], disconnected: threading.Event) -> dict[str, Any]:
        """Translates one text. Raises `InputProblem` for an invalid field, `CallerDisconnected` once
        `disconnected` is set.
        """
        text = _text_of(body, "text")
        languages = [_optional_text_of(body, field) for field in ("source_language", "target_language")]
        window = text[: CHARACTERS * self._max_tokens]
        prepared, options = self._languages.prepare(window, *languages)
        if text.strip() == "":
            return {"text": "", "usage": _usage(0, 0)}
        tokens = self._tokenizer(prepared)["input_ids"]
        is_cut = len(tokens) > self._max_tokens or window != text
        if is_cut and body.get("truncate", True) is False:
            raise InputProblem(f"text is longer than the {self._max_tokens} tokens that this model accepts", "/text")
        read = self._tokenizer(prepared, truncation=True, max_length=self._max_tokens, return_tensors="pt")
        written = self._writer.write({**read, **options}, disconnected)
        answer = {"text": self._tokenizer.decode(written, skip_special_tokens=True)}
        if is_cut:
            answer["truncated"] = True
        return {**answer, "usage": _usage(read["input_ids"].shape[1], len(written))}


def _optional_text_of(body: Mapping[str, Any], field: str) -> str | None:
    return None if body.get(field) is None else _text_of(body, field)


def _text_of(body: Mapping[str, Any], field: str) -> str:
    value = body.get(field)
    if isinstance(value, str):
        return value
    raise InputProblem(f"{field} must be a string", f"/{field}")


def _usage(read: int, written: int) -> dict[str, int]:
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
