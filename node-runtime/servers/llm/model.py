"""A causal language model in a Hugging Face folder, from prompt to tokens."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch

from accelerator import is_on_gpu
from light_torch import without_compiler

from .options import Sampling, Unusable
from .reasoning import REASONING_TAGS, closing_tag_of

with without_compiler():
    from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache, GenerationConfig
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer
    from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()

# The number of prompt tokens between two checks for a disconnected caller. A GPU processes thousands of
# tokens in the time it takes to launch their kernels.
PREFILL_CHUNK = {"cpu": 256, "cuda": 4096}
# Quantizations for which the locked environment has kernels.
READABLE_QUANTIZATIONS = ("fp8", "mxfp4", "bitsandbytes")
# The number of tokens at the end of a prompt that show whether it has opened reasoning.
PROMPT_END = 16


class Guided(Protocol):
    """A constraint on the next token."""

    def narrow(self, logits: torch.Tensor) -> None:
        """Sets to zero the probability of every token that cannot come next."""
        ...

    def accept(self, token: int) -> bool:
        """Records a token; returns False once nothing can follow it."""
        ...


class Cancelled(Exception):
    """The caller has disconnected."""


@dataclass
class ReadPrompt:
    """A prefilled prompt: its cache, and the logits after its last token."""

    tokens: list[int]
    cache: DynamicCache
    logits: torch.Tensor


@dataclass
class CacheLayer:
    """The number of heads and the width of one layer's keys and values."""

    key: tuple[int, int]
    value: tuple[int, int]
    dtype: torch.dtype


@dataclass
class Generation:
    """One response that is being generated."""

    prompt: list[int]
    sampling: Sampling
    # Set if the prompt was prefilled elsewhere.
    read: ReadPrompt | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)
    tokens: int = 0
    finish_reason: str = "length"


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
    """Weights and tokenizer. Several threads may use them, each with its own generation."""

    # The first access imports parts of the library.
    @without_compiler()
    def __init__(self, folder: Path, threads: int) -> None:
        torch.set_num_threads(threads)
        self.device = torch.device("cuda" if is_on_gpu() else "cpu")
        self._layout: list[CacheLayer] | None = None
        check_quantization(folder)
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self._model = AutoModelForCausalLM.from_pretrained(
            folder, local_files_only=True, dtype="auto", use_safetensors=True
        )
        self._model.to(self.device).eval()
        self._defaults: GenerationConfig = self._model.generation_config
        self.ends = self._end_tokens()
        self.vocabulary = int(self._model.config.get_text_config().vocab_size)
        self._rows = int(self._model.get_input_embeddings().weight.shape[0])
        self._specials = self._special_tokens()
        self.context = int(getattr(self._model.config, "max_position_embeddings", 0) or 4096)

    def render(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> list[int]:
        """Returns the tokens of a conversation, up to the start of the assistant's turn."""
        if not self.tokenizer.chat_template:
            text = "\n".join(str(message.get("content") or "") for message in messages)
            return self.known(self.tokenizer(text)["input_ids"], "messages")
        try:
            tokens = self.tokenizer.apply_chat_template(
                messages, tools=tools, add_generation_prompt=True, return_dict=False
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

    @torch.inference_mode()
    def generate(self, generation: Generation, on_token: Callable[[int], bool], guide: Guided | None = None) -> None:
        """Calls `on_token` with every token until it returns False, the model stops, or the context is full."""
        budget = self.remaining_tokens(generation)
        choose = _Chooser(generation.sampling, self._defaults, self.device)
        read = generation.read or self._read(generation, DynamicCache(config=self._model.config))
        cache, logits = read.cache, read.logits
        while generation.tokens < budget:
            if generation.cancelled.is_set():
                raise Cancelled
            if guide:
                guide.narrow(logits)
            token = choose(logits)
            generation.tokens += 1
            if token in self.ends or not on_token(token) or (guide and not guide.accept(token)):
                generation.finish_reason = "stop"
                return
            if generation.tokens < budget:
                logits = self._forward([token], cache)

    @torch.inference_mode()
    def read(self, generation: Generation) -> ReadPrompt:
        """Prefills a prompt for another server. Its cache is complete even if this model attends only to part
        of it.
        """
        self.cache_layout()
        return self._read(generation, DynamicCache())

    @torch.inference_mode()
    def cache_layout(self) -> list[CacheLayer]:
        """Returns the shapes of this model's cache, measured with one token."""
        if self._layout is None:
            layers = DynamicCache(config=self._model.config).layers
            if not all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers):
                raise Unusable("this model keeps states that cannot be handed over")
            cache = DynamicCache()
            self._forward([next(iter(self.ends), 0)], cache)
            self._layout = [
                CacheLayer(
                    (layer.keys.shape[1], layer.keys.shape[3]),
                    (layer.values.shape[1], layer.values.shape[3]),
                    layer.keys.dtype,
                )
                for layer in cache.layers
            ]
        return self._layout

    def _read(self, generation: Generation, cache: DynamicCache) -> ReadPrompt:
        prompt = generation.prompt
        chunk = PREFILL_CHUNK[self.device.type]
        logits: torch.Tensor | None = None
        for start in range(0, len(prompt), chunk):
            if generation.cancelled.is_set():
                raise Cancelled
            logits = self._forward(prompt[start : start + chunk], cache)
        if logits is None:
            raise ValueError("a prompt must have at least one token")
        return ReadPrompt(prompt, cache, logits)

    def _forward(self, tokens: list[int], cache: DynamicCache) -> torch.Tensor:
        ids = torch.tensor([tokens], device=self.device)
        return self._model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[0, -1].float()

    def _special_tokens(self) -> dict[int, str]:
        added = self.tokenizer.added_tokens_decoder
        named = {token: str(self.tokenizer.convert_ids_to_tokens(token)) for token in self.tokenizer.all_special_ids}
        return {**named, **{token: one.content for token, one in added.items() if one.special}}

    def _end_tokens(self) -> frozenset[int]:
        ends = self._defaults.eos_token_id
        ends = ends if isinstance(ends, list) else [ends]
        return frozenset(end for end in (*ends, self.tokenizer.eos_token_id) if end is not None)


class _Chooser:
    """Samples the next token; options that the caller omits default to the values of the model's authors."""

    def __init__(self, sampling: Sampling, defaults: GenerationConfig, device: torch.device) -> None:
        draws = bool(getattr(defaults, "do_sample", False))

        def setting(given: float | None, name: str, fallback: float) -> float:
            own = getattr(defaults, name, None) if draws else None
            return given if given is not None else own if own is not None else fallback

        self._temperature = setting(sampling.temperature, "temperature", 1.0)
        self._top_p = setting(sampling.top_p, "top_p", 1.0)
        self._top_k = int(setting(sampling.top_k, "top_k", 0))
        self._presence, self._frequency = sampling.presence_penalty, sampling.frequency_penalty
        self._seen: dict[int, int] = {}
        self._random = torch.Generator(device=device)
        if sampling.seed is None:
            self._random.seed()
        else:
            self._random.manual_seed(sampling.seed & 0xFFFF_FFFF)

    def __call__(self, logits: torch.Tensor) -> int:
        if (self._presence or self._frequency) and self._seen:
            tokens = torch.tensor(list(self._seen), device=logits.device)
            counts = torch.tensor(list(self._seen.values()), device=logits.device)
            logits[tokens] -= self._presence + self._frequency * counts
        token = int(logits.argmax()) if self._temperature <= 0 else self._draw(logits)
        self._seen[token] = self._seen.get(token, 0) + 1
        return token

    def _draw(self, logits: torch.Tensor) -> int:
        logits = logits / self._temperature
        if 0 < self._top_k < logits.numel():
            logits[logits < logits.topk(self._top_k).values[-1]] = -torch.inf
        shares = logits.softmax(-1)
        if self._top_p < 1:
            ordered, order = shares.sort(descending=True)
            # Keep the first token that reaches top_p.
            shares[order[ordered.cumsum(-1) - ordered > self._top_p]] = 0
        return int(torch.multinomial(shares, 1, generator=self._random))
