"""A model of translation in a Hugging Face folder."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from answers import InputProblem
from json_requests import CallerLeft
from light_torch import without_compiler
from torch_tasks.languages import Languages

with without_compiler():
    from transformers import (
        AutoModelForSeq2SeqLM,
        AutoTokenizer,
        GenerationConfig,
        StoppingCriteria,
        StoppingCriteriaList,
    )
    from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()

# Characters for each token of the model, beyond which a text is cut before it is tokenized.
CHARACTERS = 16
# A model whose configuration bounds neither texts nor positions reads and writes so many tokens.
USUAL_TOKENS = 512


class Translator:
    """Weights and tokenizer; one translation at a time."""

    task = "translation"

    # The first access imports parts of the library.
    @without_compiler()
    def __init__(self, folder: Path, threads: int) -> None:
        torch.set_num_threads(threads)
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self._model = AutoModelForSeq2SeqLM.from_pretrained(
            folder, local_files_only=True, dtype="auto", use_safetensors=True
        )
        self._model.to(self._device).eval()
        positions = getattr(self._model.config, "max_position_embeddings", None) or USUAL_TOKENS
        self._most = min(positions, self._tokenizer.model_max_length)
        self._longest = _longest(self._model.generation_config, positions)
        self._languages = Languages(self._tokenizer)

    @property
    def facts(self) -> dict[str, Any]:
        """The facts that the health check tells about the model."""
        return {"max_tokens": self._most}

    def probe(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the first request of a load, which knows no languages, with one of the model's."""
        return {"target_language": self._languages.first, **body}

    @torch.inference_mode()
    def __call__(self, body: Mapping[str, Any], left: threading.Event) -> dict[str, Any]:
        """Translates one text; raises `InputProblem` for a field, and `CallerLeft` once `left` is set."""
        text = _text_of(body, "text", is_needed=True)
        languages = [_text_of(body, field) for field in ("source_language", "target_language")]
        window = text[: CHARACTERS * self._most]
        prepared, options = self._languages.prepare(window, *languages)
        if text.strip() == "":
            return {"text": "", "usage": _usage(0, 0)}
        tokens = self._tokenizer(prepared)["input_ids"]
        is_cut = len(tokens) > self._most or window != text
        if is_cut and body.get("truncate", True) is False:
            raise InputProblem(f"text is longer than the {self._most} tokens that this model takes", "/text")
        read = self._tokenizer(prepared, truncation=True, max_length=self._most, return_tensors="pt").to(self._device)
        written = self._model.generate(
            **read,
            **options,
            max_length=None,
            max_new_tokens=self._longest,
            stopping_criteria=StoppingCriteriaList([_UntilLeft(left)]),
        )[0]
        if left.is_set():
            raise CallerLeft
        answer = {"text": self._tokenizer.decode(written, skip_special_tokens=True)}
        if is_cut:
            answer["truncated"] = True
        return {**answer, "usage": _usage(read["input_ids"].shape[1], len(written))}


def _longest(config: GenerationConfig, positions: int) -> int:
    """Returns the most tokens of a translation: what the model's authors say, and what its decoder has room for."""
    said = config.max_new_tokens or config.max_length
    return min(said or positions, positions - 1)


class _UntilLeft(StoppingCriteria):
    """Ends a generation within a token after its caller has left."""

    def __init__(self, left: threading.Event) -> None:
        self._left = left

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **_: Any) -> torch.Tensor:
        return torch.full((input_ids.shape[0],), self._left.is_set(), device=input_ids.device)


def _text_of(body: Mapping[str, Any], field: str, *, is_needed: bool = False) -> str | None:
    value = body.get(field)
    if isinstance(value, str) or (value is None and not is_needed):
        return value
    raise InputProblem(f"{field} must be a text", f"/{field}")


def _usage(read: int, written: int) -> dict[str, int]:
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
