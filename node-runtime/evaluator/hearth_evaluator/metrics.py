"""Measures how well mapped vectors replace native ones. Every function returns one number per row, or a
single number.
"""

from __future__ import annotations

import numpy as np

NEIGHBOURS = 10
# The number of similarity rows in memory at once.
_BLOCK = 1024


def unit(x: np.ndarray) -> np.ndarray:
    """Scales rows to length one; zero rows stay zero."""
    length = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.where(length > 0, length, 1)


def cosines(mapped: np.ndarray, native: np.ndarray, mean: np.ndarray | float = 0.0) -> np.ndarray:
    """Returns the cosine of each pair relative to `mean`. A model's vectors share a direction, so relative to
    the origin even unrelated ones look alike.
    """
    return (unit(mapped - mean) * unit(native - mean)).sum(axis=1)


def errors(mapped: np.ndarray, native: np.ndarray, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the squared error of each pair, and its error under a map that always predicts the mean."""
    return ((native - mapped) ** 2).sum(axis=1), ((native - mean) ** 2).sum(axis=1)


def neighbours(queries: np.ndarray, among: np.ndarray, own: np.ndarray | None) -> np.ndarray:
    """Returns the ten nearest rows of `among` to each query by cosine; `own` names a row to leave out for
    each.
    """
    among = unit(among)
    queries = unit(queries)
    found = np.empty((len(queries), min(NEIGHBOURS, len(among) - 1)), dtype=np.int64)
    for at in range(0, len(queries), _BLOCK):
        near = queries[at : at + _BLOCK] @ among.T
        if own is not None:
            near[np.arange(len(near)), own[at : at + _BLOCK]] = -np.inf
        found[at : at + _BLOCK] = np.argpartition(-near, found.shape[1] - 1, axis=1)[:, : found.shape[1]]
    return found


def overlap(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Returns, for each row of neighbors, the share that the same row of `others` also contains."""
    return (some[:, :, None] == others[:, None, :]).any(axis=2).mean(axis=1)


def retrieval(mapped: np.ndarray, native: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Returns, for the queries `rows`, the share of the native vector's ten neighbors that the mapped vector
    finds too.
    """
    return overlap(neighbours(mapped[rows], native, rows), neighbours(native[rows], native, rows))


def partner_first(mapped: np.ndarray, native: np.ndarray, mean: np.ndarray) -> float:
    """Returns how often a vector's own partner is the nearest of all."""
    mapped, native = unit(mapped - mean), unit(native - mean)
    hits = 0
    for at in range(0, len(mapped), _BLOCK):
        near = mapped[at : at + _BLOCK] @ native.T
        hits += int((near.argmax(axis=1) == np.arange(at, at + len(near))).sum())
    return hits / len(mapped)


def mutual_neighbours(source: np.ndarray, target: np.ndarray) -> float:
    """Returns the share of neighbors that rows have in common in both spaces, without any map (Huh 2024)."""
    own = np.arange(len(source))
    return float(overlap(neighbours(source, source, own), neighbours(target, target, own)).mean())


def debiased_cka(x: np.ndarray, y: np.ndarray) -> float:
    """Returns the linear CKA, with the unbiased estimate of HSIC (Song 2012, Kornblith 2019)."""
    of_x, of_y = x @ x.T, y @ y.T
    np.fill_diagonal(of_x, 0)
    np.fill_diagonal(of_y, 0)
    product = _hsic(of_x, of_x) * _hsic(of_y, of_y)
    return float(_hsic(of_x, of_y) / np.sqrt(product)) if product > 0 else 0.0


def _hsic(a: np.ndarray, b: np.ndarray) -> float:
    n = len(a)
    sums = a.sum(axis=1) @ b.sum(axis=1)
    whole = a.sum() * b.sum() / ((n - 1) * (n - 2))
    return float(((a * b).sum() + whole - 2 * sums / (n - 2)) / (n * (n - 3)))
