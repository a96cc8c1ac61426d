"""Measures how well embeddings find the matches of a text."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .contrastive import MultipleNegatives
from .pairs import Pair

# Each anchor is compared with every candidate in its part, so large parts are measured on a sample.
MAX_ROWS = 1_000


def sample(rows: list[Pair], count: int, seed: int) -> list[Pair]:
    """Returns a random sample of at most `count` rows."""
    count = min(count, MAX_ROWS, len(rows))
    return [rows[index] for index in sorted(np.random.default_rng([seed, 2]).permutation(len(rows))[:count].tolist())]


def retrieval(learning: MultipleNegatives, model: Any, rows: list[Pair]) -> dict[str, float]:
    """Returns the share of anchors whose own positive is the nearest of all texts in these rows, and the mean
    reciprocal rank of the positives. An anchor's other positives are ignored; ties count as nearer.
    """
    anchors = sorted({one.anchor for one in rows})
    candidates = sorted({text for one in rows for text in (one.positive, one.negative) if text is not None})
    place = {text: index for index, text in enumerate(candidates)}
    own: dict[int, list[int]] = {}
    for one in rows:
        own.setdefault(one.anchor, []).append(place[one.positive])
    scores = learning.embed(model, anchors) @ learning.embed(model, candidates).T
    by_anchor = dict(zip(anchors, scores, strict=True))
    ranks = torch.tensor([_rank(by_anchor[one.anchor], place[one.positive], own[one.anchor]) for one in rows])
    return {"accuracy_at_1": float((ranks == 1).float().mean()), "mrr": float((1 / ranks).mean())}


def _rank(scores: torch.Tensor, positive: int, own: list[int]) -> int:
    others = torch.ones(len(scores), dtype=torch.bool)
    others[own] = False
    return 1 + int((scores[others] >= scores[positive]).sum())
