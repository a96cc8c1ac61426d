"""Runs weights with PyTorch."""

from __future__ import annotations

import numpy as np
import torch

from accelerator import is_on_gpu
from light_torch import without_compiler
from specialist.engine import ON_PROCESSOR, ForwardLimits
from specialist.layout import Layout

with without_compiler():
    from transformers import AutoModel, AutoModelForSequenceClassification
    from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()

# Only much larger forward passes keep a GPU busy, and padding costs it little. Not yet measured on a GPU.
ON_GPU = ForwardLimits(padded=16_384, padding=4_096)


class TorchEngine:
    """A transformers model on a GPU, or in float32 on the CPU."""

    # The first access imports parts of the library.
    @without_compiler()
    def __init__(self, layout: Layout, threads: int) -> None:
        torch.set_num_threads(threads)
        on_gpu = is_on_gpu()
        self.limits = ON_GPU if on_gpu else ON_PROCESSOR
        self._device = torch.device("cuda" if on_gpu else "cpu")
        self._output = "logits" if layout.has_head else "last_hidden_state"
        self._has_types = int(layout.config.get("type_vocab_size") or 0) > 1
        kind = AutoModelForSequenceClassification if layout.has_head else AutoModel
        dtype = "auto" if on_gpu else torch.float32
        model = kind.from_pretrained(layout.folder, local_files_only=True, use_safetensors=True, dtype=dtype)
        self._model = model.to(self._device).eval()

    @torch.inference_mode()
    def run(self, ids: np.ndarray, mask: np.ndarray, types: np.ndarray) -> np.ndarray:
        """See `Engine`."""
        inputs = {"input_ids": ids, "attention_mask": mask}
        if self._has_types:
            inputs["token_type_ids"] = types
        placed = {name: torch.from_numpy(values).to(self._device) for name, values in inputs.items()}
        return getattr(self._model(**placed), self._output).float().cpu().numpy()
