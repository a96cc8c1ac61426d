"""Predicts text classes without scikit-learn: see tabular_model.py."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from answers import Labels, problem_at
from hearth_trainers.files import BadModelFile, model_file, read_json
from hearth_trainers.tabular.features import name_of
from hearth_trainers.words import WORDS_VERSION, words_of


def text_settings(manifest: Mapping[str, Any]) -> tuple[str, int, int]:
    """Returns the text column, the longest run of words, and the version of the word splitting (words.py)."""
    text = manifest["text"]
    if isinstance(text, dict):
        return text["column"], text["ngram_max"], 1
    column, longest, words = text
    return column, longest, words


class TextClassifier:
    """Predicts the class of a text from its words."""

    def __init__(self, manifest: Mapping[str, Any], directory: Path) -> None:
        self._column, self._longest, self._words = text_settings(manifest)
        if not 1 <= self._words <= WORDS_VERSION:
            raise BadModelFile("it splits text in a way that this server does not support")
        self._labels = Labels(manifest["classes"])
        vocabulary = read_json(directory, "vocabulary.json")
        self._positions = {word: position for position, word in enumerate(vocabulary)}
        with np.load(model_file(directory, manifest["model_file"])) as arrays:
            self._idf = arrays["idf"]
            # Each word's coefficients are contiguous, because an input has few words and a class has many.
            self._coefficients = np.ascontiguousarray(arrays["coef"].T)
            self._intercept = arrays["intercept"]

    def predict(self, instances: Sequence[Mapping[str, Any]]) -> list[Any]:
        """See `Model`."""
        scores = np.array([self._scores(index, instance) for index, instance in enumerate(instances)])
        sure = 1 / (1 + np.exp(-scores))
        if sure.shape[1] == 1:
            return self._labels.present(np.hstack([1 - sure, sure]))
        total = sure.sum(axis=1, keepdims=True)
        even = np.full_like(sure, 1 / sure.shape[1])
        return self._labels.present(np.divide(sure, total, out=even, where=total > 0))

    def _scores(self, index: int, instance: Mapping[str, Any]) -> np.ndarray:
        if self._column not in instance:
            raise problem_at(index, self._column, "is missing")
        text = instance[self._column]
        if not isinstance(text, str):
            raise problem_at(index, self._column, f"must be a string, not {name_of(text)}")
        counts = Counter(self._positions.get(word, -1) for word in words_of(text, self._longest, self._words))
        counts.pop(-1, None)
        if not counts:
            return self._intercept
        positions = np.fromiter(counts, dtype=np.intp, count=len(counts))
        weights = self._idf[positions] * [1 + math.log(count) for count in counts.values()]
        weights /= math.sqrt(float(weights @ weights))
        return weights @ self._coefficients[positions] + self._intercept
