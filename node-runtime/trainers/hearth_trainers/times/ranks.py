"""Compares the orders in which times put the rows of a file."""

from __future__ import annotations

import numpy as np


def is_sorted(moments: np.ndarray) -> bool:
    """Returns whether moments only rise or only fall."""
    steps = np.diff(moments)
    return bool((steps >= 0).all() or (steps <= 0).all())


def rank_alike(readings: list[np.ndarray]) -> bool:
    """Returns whether all readings of the same rows put them in the same order."""
    first, *others = (np.unique(found, return_inverse=True)[1] for found in readings)
    return all(np.array_equal(first, one) for one in others)


def oldest_first(moments: np.ndarray) -> np.ndarray:
    """Returns the positions of moments from oldest to newest. If the moments only fall, the file has the
    newest row first, so rows with equal times are reversed too.
    """
    steps = np.diff(moments)
    if (steps < 0).any() and not (steps > 0).any():
        return np.arange(len(moments))[::-1]
    return np.argsort(moments, kind="stable")
