"""Linear maps from the vectors of one model to those of another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# The ridge strengths to choose from, relative to the source's mean eigenvalue.
STRENGTHS = np.logspace(-6, 1, 15)
# The number of random target directions that suffice to choose the strength for broken pairs.
SKETCH = 64


@dataclass(frozen=True)
class LinearMap:
    """Maps x to `x @ weight + bias`."""

    weight: np.ndarray
    bias: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return x @ self.weight + self.bias


class Ridge:
    """Ridge regression over one decomposition of the source, for any number of targets."""

    def __init__(self, source: np.ndarray) -> None:
        self._mean = source.mean(axis=0)
        self._u, self._s, self._vt = np.linalg.svd(source - self._mean, full_matrices=False)
        scale = float((self._s**2).mean()) or 1.0
        self._shrinks = [self._s**2 / (self._s**2 + strength * scale) for strength in STRENGTHS]
        # One minus each row's leverage: the centered row's leverage plus the mean's.
        self._free = [1.0 - (self._u**2 @ shrink) - 1.0 / len(self._u) for shrink in self._shrinks]

    def _left_out(self, target: np.ndarray, coded: np.ndarray) -> list[float]:
        """Returns the leave-one-out squared error for each strength. It's exact without refitting: each residual is
        divided by one minus the leverage of its row (Golub, Heath, Wahba 1979)."""
        errors = []
        for shrink, free in zip(self._shrinks, self._free, strict=True):
            residual = target - self._u @ (shrink[:, None] * coded)
            errors.append(float(((residual**2).sum(axis=1) / np.maximum(free, 1e-9) ** 2).sum()))
        return errors

    def fit(self, target: np.ndarray) -> tuple[LinearMap, float]:
        """Returns the map with the best strength, and its leave-one-out R²."""
        mean = target.mean(axis=0)
        centred = target - mean
        coded = self._u.T @ centred
        errors = self._left_out(centred, coded)
        best = int(np.argmin(errors))
        rows = len(target)
        total = float((centred**2).sum()) * (rows / (rows - 1)) ** 2
        weight = self._weight(best, coded)
        return LinearMap(weight, mean - self._mean @ weight), 1.0 - errors[best] / max(total, 1e-30)

    def fit_quickly(self, target: np.ndarray, rng: np.random.Generator) -> LinearMap:
        """Like `fit`, but chooses the strength from a few random directions of the target."""
        mean = target.mean(axis=0)
        centred = target - mean
        coded = self._u.T @ centred
        sketch = rng.standard_normal((target.shape[1], min(SKETCH, target.shape[1]))).astype(target.dtype)
        best = int(np.argmin(self._left_out(centred @ sketch, coded @ sketch)))
        weight = self._weight(best, coded)
        return LinearMap(weight, mean - self._mean @ weight)

    def _weight(self, best: int, coded: np.ndarray) -> np.ndarray:
        inverse = np.divide(self._shrinks[best], self._s, out=np.zeros_like(self._s), where=self._s > 0)
        return self._vt.T @ (inverse[:, None] * coded)


class Procrustes:
    """A rotation with a scale (Schönemann 1966). If the sides differ in width, the narrower one is in effect
    padded with zeros.
    """

    def __init__(self, source: np.ndarray) -> None:
        self._mean = source.mean(axis=0)
        self._centred = source - self._mean

    def fit(self, target: np.ndarray) -> LinearMap:
        """Returns the map."""
        mean = target.mean(axis=0)
        u, s, vt = np.linalg.svd(self._centred.T @ (target - mean), full_matrices=False)
        weight = (u @ vt) * (s.sum() / max(float((self._centred**2).sum()), 1e-30))
        return LinearMap(weight, mean - self._mean @ weight)

    def left_out_r2(self, target: np.ndarray, rng: np.random.Generator, folds: int = 5) -> float:
        """Returns the cross-validated R²: leave-one-out errors of a rotation have no closed form."""
        source = self._centred
        errors = total = 0.0
        for rows in np.array_split(rng.permutation(len(source)), folds):
            rest = np.setdiff1d(np.arange(len(source)), rows)
            guess = Procrustes(source[rest]).fit(target[rest])(source[rows])
            errors += float(((target[rows] - guess) ** 2).sum())
            total += float(((target[rows] - target[rest].mean(axis=0)) ** 2).sum())
        return 1.0 - errors / max(total, 1e-30)
