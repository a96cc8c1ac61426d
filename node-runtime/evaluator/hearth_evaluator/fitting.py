"""Chooses and fits the map of a run."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from . import metrics
from .maps import LinearMap, Procrustes, Ridge

# One in this many pairs is held out to choose between the methods.
_CHOOSING = 5
_QUERIES = 1000


def fit_map(
    source: np.ndarray, target: np.ndarray, *, method: str, metric: str, seed: int
) -> tuple[LinearMap, dict[str, Any]]:
    """Returns the map fitted to these pairs, and its method, relation and cross-validated R²."""
    chosen = choose(source, target, metric, seed) if method == "auto" else method
    if chosen == "ridge":
        fitted, left_out = Ridge(source).fit(target)
        relation = "affine"
    else:
        fitting = Procrustes(source)
        fitted, left_out = fitting.fit(target), fitting.left_out_r2(target, np.random.default_rng([seed, 2]))
        relation = "orthogonal"
    return fitted, {"method": chosen, "relation": relation, "left_out_r2": left_out}


def choose(source: np.ndarray, target: np.ndarray, metric: str, seed: int) -> str:
    """Returns the method whose map does better on a fifth of the pairs. The consumer isn't queried for this;
    the cosine is used instead.
    """
    rows = np.random.default_rng([seed, 1]).permutation(len(source))
    held, rest = rows[: len(rows) // _CHOOSING], rows[len(rows) // _CHOOSING :]
    mean = target[rest].mean(axis=0)
    marks = {}
    for name, fitted in (
        ("ridge", Ridge(source[rest]).fit(target[rest])[0]),
        ("procrustes", Procrustes(source[rest]).fit(target[rest])),
    ):
        mapped, native = fitted(source[held]), target[held]
        if metric == "retrieval_overlap":
            marks[name] = metrics.retrieval(mapped, native, np.arange(min(_QUERIES, len(held)))).mean()
        elif metric == "r2":
            residual, whole = metrics.errors(mapped, native, mean)
            marks[name] = 1 - residual.sum() / whole.sum()
        else:
            marks[name] = metrics.cosines(mapped, native, mean).mean()
    return max(marks, key=lambda name: marks[name])


def write_adapter(path: Path, fitted: LinearMap) -> None:
    """Writes the map as safetensors: `weight` has a row for each output, as in torch.nn.Linear."""
    tensors = {"weight": fitted.weight.T, "bias": fitted.bias}
    header: dict[str, Any] = {}
    parts, at = [], 0
    for name, values in tensors.items():
        part = np.ascontiguousarray(values, dtype="<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [at, at + len(part)]}
        parts.append(part)
        at += len(part)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def read_adapter(path: Path) -> LinearMap:
    """Reads a map written by `write_adapter`."""
    body = path.read_bytes()
    (length,) = struct.unpack_from("<Q", body)
    header = json.loads(body[8 : 8 + length])
    found = {}
    for name in ("weight", "bias"):
        begin, end = header[name]["data_offsets"]
        found[name] = np.frombuffer(body, "<f4", (end - begin) // 4, 8 + length + begin).reshape(header[name]["shape"])
    return LinearMap(found["weight"].T, found["bias"])
