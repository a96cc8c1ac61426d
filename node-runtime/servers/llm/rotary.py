"""LongRoPE: models with one set of rotary frequencies for short texts, and another one for long texts.

transformers chooses the set by the last position of a pass, so the first chunks of a long prompt would get the short
set. The type `dynamic` needs nothing like this: its frequencies change only after `max_position_embeddings`, where a
model's context ends.
"""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from light_torch import without_compiler

with without_compiler():
    from transformers import DynamicCache

if TYPE_CHECKING:
    from collections.abc import Iterator


class LongRope:
    """Gives each pass the frequencies of the text that it is a part of. Most models have one set for all texts."""

    def __init__(self, model: Any) -> None:
        limits = set(_limits(model.config))
        # Longer texts get the long set; None if all texts have the same set.
        self._limit = min(limits, default=None)
        # Some models compute a text again when it becomes long; others keep its first keys as they are.
        self._rereads = len(limits) == 1 and _rereads(model, min(limits))
        # The length of the text, for a pass over a part of it.
        self._length: int | None = None
        if self._limit is not None:
            for module in model.modules():
                if hasattr(module, "rope_type"):
                    module.register_forward_pre_hook(self._add_position, with_kwargs=True)
                    module.register_forward_hook(self._remove_position)

    @property
    def can_share(self) -> bool:
        """Return whether all texts of one kind, short or long, have the same frequencies in any pass."""
        return self._limit is None or self._rereads

    def is_long(self, tokens: int) -> bool:
        """Returns whether a text with this many tokens has the long set."""
        return self._limit is not None and tokens > self._limit

    def must_reread(self, computed: int) -> bool:
        """Returns whether the cache of a text has to be computed again before its next token."""
        return self._rereads and computed == self._limit

    def next_chunk(self, computed: int, prompt: int, total: int, most: int) -> tuple[int, int]:
        """Returns the number of tokens in the next pass over a text, and the length of the text whose frequencies
        they get: those with which `generate` would have computed them.
        """
        if self._rereads or not self.is_long(total):
            return min(most, total - computed), total
        if computed < prompt:
            return min(most, prompt - computed), prompt
        return 1, computed + 1

    @contextmanager
    def of_length(self, tokens: int | None) -> Iterator[None]:
        """Gives the passes inside the frequencies of a text with this many tokens."""
        self._length = tokens if tokens is not None and self.is_long(tokens) else None
        try:
            yield
        finally:
            self._length = None

    def _add_position(self, module: Any, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        """Adds the last position of the text to those of a chunk."""
        if self._length is None:
            return None
        given = inspect.signature(module.forward).bind(*args, **kwargs)
        positions = given.arguments["position_ids"]
        last = torch.full_like(positions[..., :1], self._length - 1)
        given.arguments["position_ids"] = torch.cat((positions, last), -1)
        return given.args, given.kwargs

    def _remove_position(self, _module: Any, _args: Any, found: Any) -> Any:
        return None if self._length is None else tuple(part[..., :-1, :] for part in found)


def _limits(config: Any) -> Iterator[int]:
    """Yields the length of the longest short text, for each set of LongRoPE parameters."""
    for part in (config, config.get_text_config()):
        rope = getattr(part, "rope_parameters", None)
        # Some models have one set of parameters for each type of layer.
        for one in (rope, *rope.values()) if isinstance(rope, dict) else ():
            if isinstance(one, dict) and one.get("rope_type") == "longrope":
                yield int(one.get("original_max_position_embeddings") or part.max_position_embeddings)


def _rereads(model: Any, limit: int) -> bool:
    """Returns whether `generate` drops the cache of a text that becomes long."""
    cache = DynamicCache()
    cache.update(torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1, 1), 0)
    text = torch.zeros(1, limit + 1, dtype=torch.long)
    inputs = model.prepare_inputs_for_generation(
        text, next_sequence_length=1, past_key_values=cache, attention_mask=torch.ones_like(text), use_cache=True
    )
    return inputs.get("past_key_values") is None
