"""Hands prefilled prompts over to another server, with their caches as safetensors files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from transformers import DynamicCache

from exchange import BadPayload

from .generation import ReadPrompt
from .model import LanguageModel

FINGERPRINT = "space_fingerprint"
# The digest of the LoRA adapter that computed the cache; missing or empty for the model itself.
ADAPTER = "adapter"
TOKENS, LOGITS = "tokens", "logits"
# The platform's names for tensor types; safetensors uses the same names in capitals.
WORD_OF = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int32: "i32"}


def write_prompt(path: Path, read: ReadPrompt, fingerprint: str, adapter: str) -> dict[str, Any]:
    """Writes a prompt with its cache, and returns its description for the consumer. `adapter` is the digest of its
    adapter. The file includes the logits after the last token: a consumer that ran that token again on its own would
    get slightly different numbers.
    """
    tensors = {TOKENS: torch.tensor(read.tokens, dtype=torch.int32), LOGITS: read.logits.float().cpu()}
    for number, layer in enumerate(read.cache.layers):
        tensors[f"key.{number}"] = layer.keys.contiguous()
        tensors[f"value.{number}"] = layer.values.contiguous()
    draft = path.with_name(f"{path.name}.draft")
    try:
        save_file(tensors, draft, metadata={FINGERPRINT: fingerprint, ADAPTER: adapter})
        draft.rename(path)
    except OSError as error:
        raise BadPayload("no_room", f"the payload could not be written: {error.strerror}") from error
    finally:
        draft.unlink(missing_ok=True)
    keys = read.cache.layers[0].keys
    shape = list(keys.shape)
    size = path.stat().st_size
    return {
        "file": path.name,
        "size_bytes": size,
        "tokens": len(read.tokens),
        "shape": shape,
        "dtype": WORD_OF[keys.dtype],
    }


class StoredPrompt:
    """A prompt in a file whose bytes have been verified. Every tensor is checked before any of them reaches the
    model; the cache is loaded once the server has memory for it.
    """

    def __init__(self, path: Path, model: LanguageModel, fingerprint: Any, adapter: str) -> None:
        self._model = model
        model.check_hand_over()
        try:
            # The file stays open, so that it can be loaded even if it has been deleted.
            self._file: Any = safe_open(path, framework="pt", device="cpu").__enter__()
            metadata = self._file.metadata() or {}
            if metadata.get(FINGERPRINT) != fingerprint:
                raise BadPayload("space_mismatch", "the payload is for a different space than was agreed")
            if metadata.get(ADAPTER, "") != adapter:
                computed, wanted = (_described(one) for one in (metadata.get(ADAPTER), adapter))
                raise BadPayload(
                    "space_mismatch", f"the payload was computed with {computed}, but the request is for {wanted}"
                )
            self.tokens = _tokens_in(self._file, model)
        except (SafetensorError, OSError) as error:
            raise BadPayload("shape_mismatch", f"the payload is not a safetensors file: {error}") from error

    def load(self) -> ReadPrompt:
        """Loads the cache, and closes the file."""
        cache = DynamicCache()
        try:
            for number in range(len(self._model.layout)):
                keys, values = (
                    self._file.get_tensor(f"{part}.{number}").to(self._model.device) for part in ("key", "value")
                )
                cache.update(keys, values, number)
            logits = self._file.get_tensor(LOGITS).to(self._model.device, copy=True)
        finally:
            self._file.__exit__(None, None, None)
        return ReadPrompt(self.tokens, cache, logits)


def _described(adapter: str | None) -> str:
    return f"the adapter with the digest {adapter[:12]}" if adapter else "no adapter"


def _tokens_in(file: Any, model: LanguageModel) -> list[int]:
    layout = model.layout
    names = {f"{part}.{number}" for number in range(len(layout)) for part in ("key", "value")}
    if set(file.keys()) != names | {TOKENS, LOGITS}:
        raise BadPayload("shape_mismatch", f"the payload does not hold the {len(layout)} layers of this model")
    count = _count_of(file, model)
    for number, layer in enumerate(layout):
        for part, (heads, width) in (("key", layer.key), ("value", layer.value)):
            _check(file, f"{part}.{number}", [1, heads, count, width], layer.dtype)
    _check(file, LOGITS, [model.vocabulary], torch.float32)
    tokens = file.get_tensor(TOKENS).tolist()
    if not all(0 <= token < model.vocabulary for token in tokens):
        raise BadPayload("shape_mismatch", "the payload has tokens that are not in the vocabulary of this model")
    return tokens


def _count_of(file: Any, model: LanguageModel) -> int:
    shape = file.get_slice(TOKENS).get_shape()
    _check(file, TOKENS, shape[:1] or [0], torch.int32)
    if not 0 < shape[0] < model.context:
        raise BadPayload(
            "shape_mismatch", f"the payload has {shape[0]} tokens; this model accepts at most {model.context}"
        )
    return shape[0]


def _check(file: Any, name: str, shape: list[int], dtype: torch.dtype) -> None:
    found = file.get_slice(name)
    if found.get_shape() != shape:
        raise BadPayload("shape_mismatch", f"{name} has the shape {found.get_shape()} instead of {shape}")
    if found.get_dtype().lower() != WORD_OF[dtype]:
        raise BadPayload("space_mismatch", f"{name} holds {found.get_dtype().lower()} instead of {WORD_OF[dtype]}")
