"""A causal language model of a Hugging Face folder: prompts in, tokens out."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from huggingface_hub.errors import StrictDataclassError
from light_torch import without_compiler
from llm_thoughts import THOUGHT_MARKS, closing_of
from safetensors import SafetensorError

with without_compiler():
    from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache, GenerationConfig
    from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()

# A caller who leaves during a long prompt is noticed after so many tokens.
PREFILL_CHUNK = 256
# So many tokens at the end of a prompt show whether it has begun a trace.
PROMPT_END = 16


class Unusable(Exception):
    """The request cannot be answered as it is; the text is for the caller, `field` names the part that is meant."""

    def __init__(self, text: str, field: str | None = None) -> None:
        super().__init__(text)
        self.field = field


class Guided(Protocol):
    """What a token may be."""

    def narrow(self, logits: torch.Tensor) -> None:
        """Takes the chance from every token that cannot come next."""

    def took(self, token: int) -> bool:
        """Notes a token; False once nothing can follow it."""


class Cancelled(Exception):
    """The caller has left."""


@dataclass
class Sampling:
    """How tokens are chosen."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None


@dataclass
class Generation:
    """One answer under way."""

    prompt: list[int]
    sampling: Sampling
    cancelled: threading.Event = field(default_factory=threading.Event)
    tokens: int = 0
    finish_reason: str = "length"


def find_model(folder: Path) -> Path:
    """The folder with config.json: this one, or `model` in it, where fine-tuning leaves the merged weights."""
    for candidate in (folder, folder / "model"):
        if (candidate / "config.json").is_file():
            if (candidate / "adapter_config.json").exists():
                # transformers would load the base that the adapter names, from wherever it lies.
                raise FileNotFoundError("a whole model and an adapter lie in one folder: only one of them can be served")
            return candidate
    if any(folder.rglob("adapter_config.json")):
        raise FileNotFoundError("only an adapter is here: it has to be merged into its base before it can be served")
    raise FileNotFoundError("there is no config.json")


# What speaks of the machine or of its environment, whatever kind of error it is.
_MACHINE = re.compile(r"\b(gpus?|cuda|xpu|npu|devices?|memory|drivers?|disk|installed|requires?|os error)\b", re.IGNORECASE)


def is_fault_of_weights(error: BaseException) -> bool:
    """Whether a load failed for what the files of the model hold. In doubt it did not: it is tried again then."""
    if _MACHINE.search(str(error)):
        return False
    if isinstance(error, RuntimeError):
        return "size mismatch" in str(error) or "ignore_mismatched_sizes" in str(error)
    if isinstance(error, OSError):
        # The library says by a plain OSError that a file is missing or no JSON; the machine's own have a number.
        return error.errno is None
    return isinstance(error, (ValueError, KeyError, SafetensorError, StrictDataclassError))


class LanguageModel:
    """Weights and tokenizer. Safe to use from several threads, each with its own generation."""

    # Parts of the library are loaded by the first who uses them.
    @without_compiler()
    def __init__(self, folder: Path, threads: int) -> None:
        torch.set_num_threads(threads)
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self._model = AutoModelForCausalLM.from_pretrained(
            folder, local_files_only=True, dtype="auto", use_safetensors=True
        )
        self._model.to(self._device).eval()
        self._defaults: GenerationConfig = self._model.generation_config
        self.ends = self._end_tokens()
        self.vocabulary = int(self._model.config.get_text_config().vocab_size)
        self._specials = self._special_tokens()
        self.context = int(getattr(self._model.config, "max_position_embeddings", 0) or 4096)

    def render(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> list[int]:
        """The tokens of a conversation, up to where the assistant begins to speak."""
        if not self.tokenizer.chat_template:
            text = "\n".join(str(message.get("content") or "") for message in messages)
            return self.tokenizer(text)["input_ids"]
        try:
            return self.tokenizer.apply_chat_template(
                messages, tools=tools, add_generation_prompt=True, return_dict=False
            )
        except Exception as error:  # Templates are programs of the model's makers: they refuse in their own ways.
            raise Unusable(f"the model's chat template refuses these messages: {error}", "messages") from error

    def trace_of(self, prompt: list[int]) -> str | None:
        """The tag that ends the trace which this prompt has begun; None where it has not."""
        hidden = self.hidden_tokens(THOUGHT_MARKS)
        return closing_of(self.tokenizer.decode([token for token in prompt[-PROMPT_END:] if token not in hidden]))

    def hidden_tokens(self, shown: tuple[str, ...]) -> frozenset[int]:
        """The tokens that stand for no text, without those of some marks."""
        return frozenset(token for token, text in self._specials.items() if text not in shown)

    def room_for(self, generation: Generation) -> int:
        """How many tokens the answer may have."""
        left = self.context - len(generation.prompt)
        if left < 1:
            raise Unusable(
                f"the messages take {len(generation.prompt)} tokens; this model reads at most {self.context}",
                "messages",
            )
        return min(left, generation.sampling.max_tokens or left)

    @torch.inference_mode()
    def generate(self, generation: Generation, on_token: Callable[[int], bool], guide: Guided | None = None) -> None:
        """Calls `on_token` with every token until it answers False, the model ends, or the room is used up."""
        room = self.room_for(generation)
        choose = _Chooser(generation.sampling, self._defaults, self._device)
        cache = DynamicCache(config=self._model.config)
        logits = self._prefill(generation, cache)
        while generation.tokens < room:
            if generation.cancelled.is_set():
                raise Cancelled
            if guide:
                guide.narrow(logits)
            token = choose(logits)
            generation.tokens += 1
            if token in self.ends or not on_token(token) or (guide and not guide.took(token)):
                generation.finish_reason = "stop"
                return
            if generation.tokens < room:
                logits = self._forward([token], cache)

    def _prefill(self, generation: Generation, cache: DynamicCache) -> torch.Tensor:
        prompt = generation.prompt
        for start in range(0, len(prompt), PREFILL_CHUNK):
            if generation.cancelled.is_set():
                raise Cancelled
            logits = self._forward(prompt[start : start + PREFILL_CHUNK], cache)
        return logits

    def _forward(self, tokens: list[int], cache: DynamicCache) -> torch.Tensor:
        ids = torch.tensor([tokens], device=self._device)
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
    """Draws the next token; what the caller leaves open is as the model's makers set it."""

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
            # The first token that reaches the share stays in.
            shares[order[ordered.cumsum(-1) - ordered > self._top_p]] = 0
        return int(torch.multinomial(shares, 1, generator=self._random))
