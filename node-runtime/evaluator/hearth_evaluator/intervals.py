"""Confidence intervals for a metric over pairs."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

import numpy as np

NORMAL = NormalDist()
# The number of row indices drawn per bootstrap round.
_ROUND = 4_000_000


@dataclass(frozen=True)
class Interval:
    """A confidence interval and how it was computed."""

    estimate: float
    low: float
    high: float
    level: float
    method: str
    resamples: int


def interval_of(
    values: np.ndarray,
    weights: np.ndarray | None,
    *,
    is_share: bool,
    resamples: int,
    rng: np.random.Generator,
    level: float = 0.95,
) -> Interval:
    """Returns the confidence interval for the mean of `values`, or with `weights`, for one minus the ratio of
    the sums. Uses BCa with a bootstrap over pairs (Efron 1987), or Wilson's interval for a share of 0 or
    1.
    """
    count = len(values)
    bottom = np.ones(count) if weights is None else weights.astype(np.float64)
    top = values.astype(np.float64)
    statistic = (lambda t, b: t / b) if weights is None else (lambda t, b: 1 - t / b)
    estimate = float(statistic(top.sum(), bottom.sum()))
    if is_share and estimate in (0.0, 1.0):
        low, high = wilson(estimate, count, level)
        return Interval(estimate, low, high, level, "wilson", 0)

    draws = np.concatenate(
        [statistic(*_sums(top, bottom, rng, size)) for size in _rounds(resamples, max(1, _ROUND // count))]
    )
    if draws.max() - draws.min() < 1e-12:
        return Interval(estimate, estimate, estimate, level, "percentile", resamples)
    below = float(((draws < estimate).mean() + (draws <= estimate).mean()) / 2)
    bias = NORMAL.inv_cdf(min(max(below, 0.5 / resamples), 1 - 0.5 / resamples))
    without = statistic(top.sum() - top, bottom.sum() - bottom)
    away = without.mean() - without
    spread = float((away**2).sum()) ** 1.5
    skew = float((away**3).sum()) / (6 * spread) if spread > 0 else 0.0
    ends = [_end(bias, skew, tail) for tail in ((1 - level) / 2, (1 + level) / 2)]
    low, high = (float(np.quantile(draws, end)) for end in ends)
    # With extreme draws, the correction can move an end past the estimate.
    return Interval(estimate, min(low, estimate), max(high, estimate), level, "bca", resamples)


def wilson(share: float, count: int, level: float) -> tuple[float, float]:
    """Returns Wilson's interval for a share."""
    z = NORMAL.inv_cdf((1 + level) / 2)
    middle = share + z * z / (2 * count)
    half = z * sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    scale = 1 + z * z / count
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


def _end(bias: float, skew: float, tail: float) -> float:
    z = bias + NORMAL.inv_cdf(tail)
    return NORMAL.cdf(bias + z / (1 - skew * z))


def _rounds(total: int, most: int) -> list[int]:
    return [min(most, total - at) for at in range(0, total, most)]


def _sums(top: np.ndarray, bottom: np.ndarray, rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    rows = rng.integers(0, len(top), (size, len(top)))
    return top[rows].sum(axis=1), bottom[rows].sum(axis=1)
