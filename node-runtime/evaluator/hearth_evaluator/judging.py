"""Judges a fitted map on pairs that it has not seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from . import metrics
from .intervals import interval_of
from .maps import LinearMap, Procrustes, Ridge

# The number of rows per broken pairing; each row costs a search or a call to the consumer. With fewer rows,
# the null distribution is wider, so more maps are rejected.
NULL_ROWS = 256
_CKA_ROWS = 2000
# The maximum p-value. Only with enough permutations can p get this low.
MAX_P = 0.01
_R2_SLACK = 0.05
_MIN_TESTS = 200


class Pairs:
    """Vectors of the same texts from both models; the map is fitted to the first `fit_count` rows."""

    def __init__(self, source: np.ndarray, target: np.ndarray, fit_count: int) -> None:
        self.source_fit, self.source_test = np.split(source.astype(np.float64), [fit_count])
        self.target_fit, self.target_test = np.split(target.astype(np.float64), [fit_count])
        self.mean = self.target_fit.mean(axis=0)


def broken_maps(pairs: Pairs, method: str, permutations: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Refits the map to shuffled pairs, `permutations` times. Yields the mapped vectors of some test rows,
    and the rows they are now paired with.
    """
    source, target = pairs.source_fit.astype(np.float32), pairs.target_fit.astype(np.float32)
    test = pairs.source_test.astype(np.float32)
    rows = test[: min(NULL_ROWS, len(test))]
    fitting = Ridge(source) if method == "ridge" else Procrustes(source)
    for index in range(permutations):
        rng = np.random.default_rng([seed, 3, index])
        broken = target[rng.permutation(len(target))]
        fitted = fitting.fit_quickly(broken, rng) if isinstance(fitting, Ridge) else fitting.fit(broken)
        yield fitted(rows), rng.permutation(len(test))[: len(rows)]


def judge(
    pairs: Pairs,
    fitted: LinearMap,
    found: dict[str, Any],
    answers: dict[str, Any] | None,
    *,
    metric: str,
    threshold: float,
    permutations: int,
    resamples: int,
    seed: int,
) -> dict[str, Any]:
    """Returns the verdict: the metric with its interval, its null distribution, diagnostics, and the reasons
    to reject the map.
    """
    mapped, native = fitted(pairs.source_test), pairs.target_test
    diagnostics = diagnose(pairs, mapped)
    values, weights, null = _decide(pairs, mapped, native, found, answers, metric, permutations, seed)
    rng = np.random.default_rng([seed, 4])
    is_share = metric in ("consumer_agreement", "retrieval_overlap")
    interval = interval_of(values, weights, is_share=is_share, resamples=resamples, rng=rng)
    at_least = int((null >= interval.estimate).sum())
    chance = {
        "upper_95": float(np.quantile(null, 0.95)),
        "p_value": (1 + at_least) / (permutations + 1),
        "permutations": permutations,
    }
    fits = len(pairs.source_fit)
    gap = abs(found["left_out_r2"] - diagnostics["r2"])
    reasons = [
        code
        for code, is_reason in (
            ("below_threshold", interval.low < threshold),
            ("p_value", chance["p_value"] > MAX_P),
            ("not_above_null", interval.low <= chance["upper_95"]),
            ("too_few_to_fit", fits < 4 * pairs.source_fit.shape[1] and gap > _R2_SLACK),
            ("too_few_tests", len(native) < _MIN_TESTS),
        )
        if is_reason
    ]
    body = asdict(interval)
    return {
        "estimate": body.pop("estimate"),
        "score": interval.low,
        "interval": body,
        "null_model": chance,
        "diagnostics": diagnostics,
        "sample_count": len(native),
        "fit_count": fits,
        "reasons": reasons,
        **found,
    }


def diagnose(pairs: Pairs, mapped: np.ndarray) -> dict[str, float]:
    """Measures what the map does to vectors, independent of any task."""
    native, mean = pairs.target_test, pairs.mean
    residual, whole = metrics.errors(mapped, native, mean)
    some = slice(0, _CKA_ROWS)
    found = {
        "cosine": metrics.cosines(mapped, native, mean).mean(),
        "cosine_raw": metrics.cosines(mapped, native).mean(),
        "r2": 1 - residual.sum() / max(whole.sum(), 1e-30),
        "top1": metrics.partner_first(mapped, native, mean),
        "recall_at_10": metrics.retrieval(mapped, native, np.arange(len(native))).mean(),
        "mutual_knn_10": metrics.mutual_neighbours(pairs.source_test[some], native[some]),
        "cka_debiased": metrics.debiased_cka(pairs.source_test[some], native[some]),
    }
    return {name: float(value) for name, value in found.items()}


def _decide(
    pairs: Pairs,
    mapped: np.ndarray,
    native: np.ndarray,
    found: dict[str, Any],
    answers: dict[str, Any] | None,
    metric: str,
    permutations: int,
    seed: int,
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """Returns the metric of each pair (with weights if it is a ratio of sums), and its values over broken
    pairs.
    """
    if metric == "consumer_agreement":
        return _agreement(answers or {})
    broken = broken_maps(pairs, found["method"], permutations, seed)
    if metric == "retrieval_overlap":
        own = np.arange(len(native))
        near = metrics.neighbours(native, native, own)
        values = metrics.overlap(metrics.neighbours(mapped, native, own), near)
        some = native.astype(np.float32)
        null = [metrics.overlap(metrics.neighbours(guess, some, rows), near[rows]).mean() for guess, rows in broken]
        return values, None, np.array(null)
    if metric == "cosine":
        null = [metrics.cosines(guess, native[rows], pairs.mean).mean() for guess, rows in broken]
        return metrics.cosines(mapped, native, pairs.mean), None, np.array(null)
    residual, whole = metrics.errors(mapped, native, pairs.mean)
    null = []
    for guess, rows in broken:
        missed, all_of = metrics.errors(guess, native[rows], pairs.mean)
        null.append(1 - missed.sum() / max(all_of.sum(), 1e-30))
    return residual, whole, np.array(null)


def _agreement(answers: dict[str, Any]) -> tuple[np.ndarray, None, np.ndarray]:
    """Returns, for each pair, whether the consumer's answers agree. Answers are numbered so that equal ones
    have equal numbers.
    """
    native = np.array(answers["native"])
    partners = np.array(answers["null_rows"])
    null = (np.array(answers["null"]) == native[partners]).mean(axis=1)
    return (np.array(answers["mapped"]) == native).astype(np.float64), None, null
