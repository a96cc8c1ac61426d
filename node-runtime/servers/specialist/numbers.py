"""Converts the output of the weights to results, after checking it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from json_requests import BadOutput
from specialist.layout import Pooling
from specialist.texts import Tokens


def pool(hidden: np.ndarray, texts: Sequence[Tokens], pooling: Pooling) -> list[np.ndarray]:
    """Returns one vector for each text, from the vectors of its tokens."""
    return [_vector(row[: len(text)], text, pooling) for row, text in zip(hidden, texts, strict=True)]


def _vector(row: np.ndarray, text: Tokens, pooling: Pooling) -> np.ndarray:
    counted = row if pooling.has_prompt else row[text.skipped :]
    parts = [_part(mode, row, counted) for mode in pooling.modes]
    vector = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return unit(vector) if pooling.normalizes else vector


def _part(mode: str, row: np.ndarray, counted: np.ndarray) -> np.ndarray:
    if mode == "cls":
        return row[0]
    if mode == "lasttoken":
        return row[-1]
    # A text without counted tokens gets a zero vector, as in sentence-transformers.
    if len(counted) == 0:
        return np.zeros(row.shape[1], dtype=np.float32)
    if mode == "max":
        return counted.max(axis=0)
    return counted.sum(axis=0) / (len(counted) ** 0.5 if mode == "mean_sqrt_len_tokens" else len(counted))


def unit(vector: np.ndarray) -> np.ndarray:
    """Returns the vector scaled to length 1; a zero vector is unchanged."""
    length = float(np.linalg.norm(vector))
    return vector / length if length > 1e-12 else vector


def checked(values: np.ndarray, width: int | None) -> np.ndarray | BadOutput:
    """Returns the numbers of one text, or an error that says what is wrong with them."""
    if values.ndim != 1 or len(values) == 0 or (width is not None and len(values) != width):
        return BadOutput(f"The model returned {values.shape} numbers instead of {width}.")
    if not np.isfinite(values).all():
        return BadOutput("The model returned numbers that are not finite.")
    return values


def sigmoid(values: np.ndarray) -> np.ndarray:
    """Returns the independent probability of each logit."""
    return np.exp(-np.logaddexp(0.0, -values.astype(np.float64)))


def softmax(values: np.ndarray) -> np.ndarray:
    """Returns the probabilities of mutually exclusive logits."""
    powers = np.exp(values.astype(np.float64) - values.max())
    return powers / powers.sum()
