"""A response that is being generated, from its prompt to its last token."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from .options import Sampling

if TYPE_CHECKING:
    import torch
    from transformers import DynamicCache


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
class Generation:
    """One response that is being generated."""

    prompt: list[int]
    sampling: Sampling
    # Loads the prompt's cache, if the prompt was prefilled elsewhere.
    load: Callable[[], ReadPrompt] | None = None
    # The LoRA adapter that this response uses; a forward pass uses at most one.
    adapter: str | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)
    tokens: int = 0
    finish_reason: str = "length"
