"""Encodes the past of a series as numbers. The trainer and the model server use it, so it needs only NumPy."""

from __future__ import annotations

import numpy as np

_SPANS = (3, 7, 14, 28)


def window_features(windows: np.ndarray, horizon: int, season: int) -> np.ndarray:
    """Returns rows for steps 1 to `horizon` after each window: `(n, lags)` in, `(n * horizon,
    width)` out.

    Everything except the level is relative to the newest value, so that a trend from training
    continues above the highest value that occurred in training."""
    count, lags = windows.shape
    last = windows[:, -1:]
    relative = windows[:, :-1] - last
    shared = [relative]
    for span in _SPANS:
        if span < lags:
            recent = windows[:, -span:]
            shared += [recent.mean(axis=1, keepdims=True) - last, recent.std(axis=1, keepdims=True)]
    shared += [windows.mean(axis=1, keepdims=True) - last, windows.std(axis=1, keepdims=True)]

    steps = np.arange(1, horizon + 1)
    blocks = [np.repeat(np.hstack(shared), horizon, axis=0), np.tile(steps, count)[:, None].astype(np.float64)]
    if season:
        # The nearest known value that is one or more whole seasons before the step.
        seasons_back = -(-steps // season)
        positions = lags - 1 + steps - season * seasons_back
        blocks.append((windows[:, positions] - last).reshape(-1, 1))
    return np.hstack(blocks)


def forecasts(windows: np.ndarray, changes: np.ndarray) -> np.ndarray:
    """Returns values from the changes that a model predicts: `(n, horizon)`."""
    return windows[:, -1:] + changes.reshape(len(windows), -1)
