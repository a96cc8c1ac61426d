"""Fits and judges maps between planted spaces; prints each case's verdict as one line of JSON."""

from __future__ import annotations

import json
import sys

import numpy as np

from hearth_evaluator.fitting import fit_map
from hearth_evaluator.intervals import interval_of, wilson
from hearth_evaluator.judging import Pairs, judge
from hearth_evaluator.maps import STRENGTHS, Procrustes, Ridge

FIT, TEST, WIDTH = 800, 400, 32


def main() -> None:
    """Prints every case."""
    rng = np.random.default_rng(0)
    # The vectors of a model share a direction, which the offset imitates.
    source = rng.standard_normal((FIT + TEST, WIDTH)) * np.linspace(1, 0.3, WIDTH) + 2
    turn = np.linalg.qr(rng.standard_normal((WIDTH, WIDTH)))[0]
    linear = source @ (rng.standard_normal((WIDTH, 48)) / 6)

    def noisy(share: float) -> np.ndarray:
        return linear + share * linear.std(axis=0) * rng.standard_normal(linear.shape) + 5

    cases = {
        "rotation": (source, source @ turn + 1, "retrieval_overlap", "procrustes"),
        "rotation_auto": (source, source @ turn + 1, "cosine", "auto"),
        "linear": (source, noisy(0.1), "cosine", "auto"),
        "noisy": (source, noisy(0.3), "cosine", "ridge"),
        "noisier": (source, noisy(1.0), "cosine", "ridge"),
        "noisy_r2": (source, noisy(0.3), "r2", "ridge"),
        "unrelated": (source, rng.standard_normal(linear.shape) + 5, "cosine", "ridge"),
        "unrelated_retrieval": (source, rng.standard_normal(linear.shape) + 5, "retrieval_overlap", "ridge"),
    }
    for name, (a, b, metric, method) in cases.items():
        report(name, verdict(a, b, metric, method))

    native = np.arange(TEST) % 4
    report("consumer", consumer(source, linear, np.where(np.arange(TEST) < 4, 3 - native, native), native))
    report("consumer_of_one_answer", consumer(source, linear, np.zeros(TEST, int), np.zeros(TEST, int)))
    report("left_out", left_out(source[:60], linear[:60]))
    report("padded", padded(source, rng))
    report("intervals", intervals(rng))


def report(name: str, body: object) -> None:
    """Prints one line."""
    print(json.dumps({"case": name, "found": body}), flush=True)


def verdict(a: np.ndarray, b: np.ndarray, metric: str, method: str) -> dict:
    """Fits a map, and judges it by the vectors alone."""
    pairs = Pairs(a, b, FIT)
    fitted, found = fit_map(pairs.source_fit, pairs.target_fit, method=method, metric=metric, seed=1)
    return judge(pairs, fitted, found, None, metric=metric, threshold=0.9, permutations=100, resamples=2000, seed=1)


def consumer(a: np.ndarray, b: np.ndarray, mapped: np.ndarray, native: np.ndarray) -> dict:
    """Fits a map and judges it by the given answers; the null answers are drawn at random from the native ones."""
    pairs = Pairs(a, b, FIT)
    fitted, found = fit_map(pairs.source_fit, pairs.target_fit, method="ridge", metric="cosine", seed=1)
    rng = np.random.default_rng(5)
    rows = np.array([rng.permutation(TEST)[:256] for _ in range(100)])
    answers = {"native": native, "mapped": mapped, "null": native[rng.permuted(rows, axis=1)], "null_rows": rows}
    return judge(
        pairs,
        fitted,
        found,
        answers,
        metric="consumer_agreement",
        threshold=0.9,
        permutations=100,
        resamples=2000,
        seed=1,
    )


def left_out(a: np.ndarray, b: np.ndarray) -> dict:
    """Returns the quick leave-one-out error, and the error of refitting without each row."""
    ridge = Ridge(a)
    centred = b - b.mean(axis=0)
    quick = ridge._left_out(centred, ridge._u.T @ centred)
    scale = float((np.linalg.svd(a - a.mean(axis=0), compute_uv=False) ** 2).mean())
    slow = []
    for strength in STRENGTHS:
        total = 0.0
        for row in range(len(a)):
            rest = np.arange(len(a)) != row
            x, y = a[rest], b[rest]
            mean_x, mean_y = x.mean(axis=0), y.mean(axis=0)
            gram = (x - mean_x).T @ (x - mean_x) + strength * scale * np.eye(a.shape[1])
            weight = np.linalg.solve(gram, (x - mean_x).T @ (y - mean_y))
            total += float(((b[row] - mean_y - (a[row] - mean_x) @ weight) ** 2).sum())
        slow.append(total)
    return {"worst": float(np.max(np.abs(np.array(quick) / np.array(slow) - 1)))}


def padded(a: np.ndarray, rng: np.random.Generator) -> dict:
    """Returns how far a rotation into more dimensions is from the planted one, and from preserving lengths."""
    wide = np.linalg.qr(rng.standard_normal((48, 48)))[0][:WIDTH]
    fitted = Procrustes(a).fit(3 * a @ wide + 1)
    off = np.abs(fitted(a) - (3 * a @ wide + 1)).max()
    return {"off": float(off), "orthogonal": float(np.abs(fitted.weight @ fitted.weight.T - 9 * np.eye(WIDTH)).max())}


def intervals(rng: np.random.Generator) -> dict:
    """Returns how often the interval for a skewed distribution contains the true mean, and two Wilson
    intervals.
    """
    truth, hits, rounds = 1.0, 0, 200
    for _ in range(rounds):
        found = interval_of(rng.exponential(truth, 100), None, is_share=False, resamples=500, rng=rng)
        hits += found.low <= truth <= found.high
    return {"coverage": hits / rounds, "wilson_all": wilson(1.0, 1000, 0.95), "wilson_half": wilson(0.5, 100, 0.95)}


if __name__ == "__main__":
    sys.exit(main())
