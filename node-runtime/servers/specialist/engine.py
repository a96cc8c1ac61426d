"""The interface of the libraries that run weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from specialist.texts import Tokens


@dataclass(frozen=True)
class ForwardLimits:
    """The maximum size of a forward pass, in tokens."""

    padded: int
    # How many of these tokens may be padding.
    padding: int


# On a CPU, a larger forward pass takes as long per token, and padding takes as long as text
# (bench/embeddings.ts). The time for a forward pass is roughly proportional to its padded tokens plus 7 (22.7
# million parameters, 1 to 40 texts of 12 to 512 tokens). So two forward passes are faster than one with more
# padding than this.
ON_PROCESSOR = ForwardLimits(padded=512, padding=14)


class Engine(Protocol):
    """Runs forward passes."""

    limits: ForwardLimits

    def run(self, ids: np.ndarray, mask: np.ndarray, types: np.ndarray) -> np.ndarray:
        """Returns the vectors of the tokens (texts, tokens, width), or the logits of a head (texts, labels)."""
        ...


def padded(texts: Sequence[Tokens], padding: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the ids, mask and types of texts, padded to the same length."""
    shape = (len(texts), max(map(len, texts)))
    ids = np.full(shape, padding, dtype=np.int64)
    mask = np.zeros(shape, dtype=np.int64)
    types = np.zeros(shape, dtype=np.int64)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = text.ids
        mask[row, : len(text)] = 1
        if text.types is not None:
            types[row, : len(text)] = text.types
    return ids, mask, types
