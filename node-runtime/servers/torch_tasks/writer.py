"""A model that generates text, for one request at a time, until its caller disconnects."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch

from accelerator import is_on_gpu
from json_requests import BadOutput, CallerDisconnected
from light_torch import without_compiler

with without_compiler():
    from transformers import (
        GenerationConfig,
        LogitsProcessor,
        LogitsProcessorList,
        PreTrainedModel,
        StoppingCriteria,
        StoppingCriteriaList,
    )
    from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()

# The token limit of a model whose configuration limits neither its output nor its positions.
USUAL_TOKENS = 512


class Writer:
    """The weights of one model."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        decoder = getattr(model.config, "decoder", model.config)
        self.positions = getattr(decoder, "max_position_embeddings", None) or USUAL_TOKENS
        self._max_tokens = _max_tokens(model.generation_config, self.positions)

    @classmethod
    def load(cls, kind: Any, folder: Path) -> Writer:
        """Loads a folder's safetensors as the given transformers class."""
        device = torch.device("cuda" if is_on_gpu() else "cpu")
        model = kind.from_pretrained(folder, local_files_only=True, dtype="auto", use_safetensors=True)
        return cls(model.to(device).eval())

    def write(self, inputs: Mapping[str, Any], disconnected: threading.Event) -> torch.Tensor:
        """Returns the generated tokens; raises `CallerDisconnected` once `disconnected` is set."""
        written = self._model.generate(
            **{name: self._placed(value) for name, value in inputs.items()},
            max_length=None,
            max_new_tokens=self._max_tokens,
            stopping_criteria=StoppingCriteriaList([_StopOnDisconnect(disconnected)]),
            logits_processor=LogitsProcessorList([_Finite()]),
        )[0]
        if disconnected.is_set():
            raise CallerDisconnected
        return written

    def is_cut(self, written: torch.Tensor) -> bool:
        """Returns whether the output was cut at its limit. Its first token may be an end token."""
        ends = self._model.generation_config.eos_token_id
        if ends is None:
            return False
        return not any(end in written[1:] for end in (ends if isinstance(ends, list) else [ends]))

    def _placed(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.to(self._model.device, self._model.dtype if value.is_floating_point() else None)


def _max_tokens(config: GenerationConfig, positions: int) -> int:
    """Returns the token limit of an output: the model's configured limit, capped by its decoder's positions."""
    configured = config.max_new_tokens or config.max_length
    return min(configured or positions, positions - 1)


class _StopOnDisconnect(StoppingCriteria):
    """Ends a generation within one token after its caller disconnects."""

    def __init__(self, disconnected: threading.Event) -> None:
        self._disconnected = disconnected

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **_: Any) -> torch.Tensor:
        return torch.full((input_ids.shape[0],), self._disconnected.is_set(), device=input_ids.device)


class _Finite(LogitsProcessor):
    """Ends a generation whose highest score isn't finite. A score of negative infinity only excludes a token."""

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if not scores.amax(dim=-1).isfinite().all():
            raise BadOutput("The model returned numbers that are not finite.")
        return scores
