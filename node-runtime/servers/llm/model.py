"""A causal language model in a Hugging Face folder, from prompt to tokens."""

from __future__ import annotations

import inspect
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch

from accelerator import is_on_gpu
from light_torch import without_compiler

from .adapters import Adapters
from .generation import Generation
from .options import Unusable
from .reasoning import REASONING_TAGS, closing_tag_of
from .rotary import LongRope

with without_compiler():
    from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache, GenerationConfig
    from transformers.cache_utils import Cache, DynamicLayer, DynamicSlidingWindowLayer
    from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()

# Quantizations for which the locked environment has kernels.
READABLE_QUANTIZATIONS = ("fp8", "mxfp4", "bitsandbytes")
# The number of tokens at the end of a prompt that show whether it has opened reasoning.
PROMPT_END = 16


@dataclass
class CacheLayer:
    """The number of heads and the width of one layer's keys and values."""

    key: tuple[int, int]
    value: tuple[int, int]
    dtype: torch.dtype


def find_model(folder: Path) -> Path:
    """Returns the folder with config.json: this one, or `model` in it, where fine-tuning
    writes the merged weights."""
    for candidate in (folder, folder / "model"):
        if (candidate / "config.json").is_file():
            if (candidate / "adapter_config.json").exists():
                # transformers would load the base from whatever path the adapter names.
                raise FileNotFoundError(
                    "a complete model and an adapter are in the same folder: only one of them can be served"
                )
            return candidate
    if any(folder.rglob("adapter_config.json")):
        raise FileNotFoundError(
            "the folder contains only an adapter: it has to be merged into its base before it can be served"
        )
    raise FileNotFoundError("there is no config.json")


def check_quantization(folder: Path) -> None:
    """Raises an error for weights that need kernels missing from the locked environment; the library's own
    error asks for packages that platform users cannot install.
    """
    quantization = json.loads((folder / "config.json").read_text("utf8")).get("quantization_config")
    method = quantization.get("quant_method") if isinstance(quantization, dict) else None
    if method is not None and method not in READABLE_QUANTIZATIONS:
        raise ValueError(
            f"the weights are quantized with {method}, which this server cannot read: serve the model with vLLM, or "
            "use weights that are not quantized, or a GGUF"
        )


class LanguageModel:
    """Weights and tokenizer. Several threads may tokenize, but only one may call `forward`."""

    # The first access imports parts of the library.
    @without_compiler()
    def __init__(self, folder: Path, threads: int) -> None:
        torch.set_num_threads(threads)
        self.device = torch.device("cuda" if is_on_gpu() else "cpu")
        check_quantization(folder)
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self._model = AutoModelForCausalLM.from_pretrained(
            folder, local_files_only=True, dtype="auto", use_safetensors=True
        )
        self._model.to(self.device).eval()
        self.config = self._model.config
        self.adapters = Adapters(self._model)
        self.rope = LongRope(self._model)
        self.defaults: GenerationConfig = self._model.generation_config
        self.ends = self._end_tokens()
        self.vocabulary = int(self._model.config.get_text_config().vocab_size)
        self._rows = int(self._model.get_input_embeddings().weight.shape[0])
        self._specials = self._special_tokens()
        self.context = int(getattr(self._model.config.get_text_config(), "max_position_embeddings", 0) or 4096)
        self._takes_positions = "position_ids" in inspect.signature(self._model.forward).parameters
        # Recurrent states, and other caches that are not one key and value per token, can't be padded.
        layers = DynamicCache(config=self._model.config).layers
        self.is_batchable = all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers)
        self.weights_bytes = sum(weights.nbytes for weights in self._model.parameters())
        # The shapes of a cache that can be handed over.
        self.layout, self.bytes_per_token = self._measure_cache()

    def render(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, adapter: str | None = None
    ) -> list[int]:
        """Returns the tokens of a conversation, up to the start of the assistant's turn."""
        template = self.adapters.template_of(adapter) or self.tokenizer.chat_template
        if not template:
            text = "\n".join(str(message.get("content") or "") for message in messages)
            return self.known(self.tokenizer(text)["input_ids"], "messages")
        try:
            tokens = self.tokenizer.apply_chat_template(
                messages, tools=tools, chat_template=template, add_generation_prompt=True, return_dict=False
            )
        except Exception as error:  # Chat templates are programs of the model's authors and may raise any error.
            raise Unusable(f"the model's chat template refuses these messages: {error}", "messages") from error
        return self.known(tokens, "messages")

    def known(self, tokens: list[int], field: str) -> list[int]:
        """Returns the tokens of a prompt if the model has an embedding for each; tokenizers may
        have been extended without the model."""
        unknown = next((token for token in tokens if token >= self._rows), None)
        if unknown is None:
            return tokens
        text = self.tokenizer.convert_ids_to_tokens(unknown)
        raise Unusable(
            f"{field} has the token {text!r} (id {unknown}), for which this model has no embedding: its tokenizer has "
            f"more tokens than the model, which has {self._rows}",
            field,
        )

    def open_reasoning_tag(self, prompt: list[int]) -> str | None:
        """Returns the closing tag of reasoning that this prompt has opened, or None."""
        hidden = self.hidden_tokens(REASONING_TAGS)
        return closing_tag_of(self.tokenizer.decode([token for token in prompt[-PROMPT_END:] if token not in hidden]))

    def hidden_tokens(self, shown: tuple[str, ...]) -> frozenset[int]:
        """Returns the special tokens, except those in `shown`; they are not part of the text."""
        return frozenset(token for token, text in self._specials.items() if text not in shown)

    def remaining_tokens(self, generation: Generation) -> int:
        """Returns the maximum number of tokens for the response. Raises Unusable for a prompt that is empty
        or too long.
        """
        if not generation.prompt:
            raise Unusable("the messages have no tokens: this model needs at least one to answer", "messages")
        free = self.context - len(generation.prompt)
        if free < 1:
            raise Unusable(
                f"the messages take {len(generation.prompt)} tokens; this model accepts at most {self.context}",
                "messages",
            )
        return min(free, generation.sampling.max_tokens or free)

    def check_hand_over(self) -> None:
        """Raises Unusable if this model's cache holds states other than keys and values."""
        if not self.is_batchable:
            raise Unusable("this model keeps states that cannot be handed over")

    def new_cache(self) -> DynamicCache:
        """Returns the cache for a sequence. If caches can be batched or handed over, it is complete even if the model
        attends only to part of it.
        """
        return DynamicCache() if self.is_batchable else DynamicCache(config=self._model.config)

    def forward(
        self, inputs: dict[str, torch.Tensor], cache: Cache, adapter: str | None = None, length: int | None = None
    ) -> torch.Tensor:
        """Computes the next tokens of each row; returns the logits after the last one. `length` is that of the text
        that the tokens are a part of; by default it ends with them.
        """
        self.adapters.choose(adapter)
        if not self._takes_positions:
            inputs.pop("position_ids", None)
        with self.rope.of_length(length):
            found = self._model(**inputs, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return found.logits[:, -1].float()

    @torch.inference_mode()
    def _measure_cache(self) -> tuple[list[CacheLayer], int]:
        """Returns the layers and the size in bytes of a cache with one token."""
        cache = self.new_cache()
        try:
            self.forward({"input_ids": torch.tensor([[next(iter(self.ends), 0)]], device=self.device)}, cache)
        except Exception as error:
            # A load that raises any other type may count as a permanent fault of the weights.
            raise RuntimeError(f"the first forward pass failed: {error}") from error
        layers = [layer for layer in cache.layers if getattr(layer, "keys", None) is not None]
        size = sum(layer.keys.nbytes + layer.values.nbytes for layer in layers)
        shapes = [
            CacheLayer(
                (layer.keys.shape[1], layer.keys.shape[3]),
                (layer.values.shape[1], layer.values.shape[3]),
                layer.keys.dtype,
            )
            for layer in layers
            if self.is_batchable
        ]
        return shapes, size

    def _special_tokens(self) -> dict[int, str]:
        added = self.tokenizer.added_tokens_decoder
        named = {token: str(self.tokenizer.convert_ids_to_tokens(token)) for token in self.tokenizer.all_special_ids}
        return {**named, **{token: one.content for token, one in added.items() if one.special}}

    def _end_tokens(self) -> frozenset[int]:
        ends = self.defaults.eos_token_id
        ends = ends if isinstance(ends, list) else [ends]
        return frozenset(end for end in (*ends, self.tokenizer.eos_token_id) if end is not None)
