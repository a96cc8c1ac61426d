"""Serves forecast models; see tabular_model.py."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from answers import problem_at
from hearth_trainers.tabular.features import name_of
from hearth_trainers.tabular.series import forecasts, window_features
from lightgbm_native import NativeBooster


class Forecaster:
    """Predicts the next values of a series from its last ones."""

    def __init__(self, manifest: Mapping[str, Any], booster: NativeBooster) -> None:
        self._target: str = manifest["target"]
        self._lags: int = manifest["lags"]
        self._horizon: int = manifest["horizon"]
        self._season: int = manifest["season"]
        self._booster = booster

    def predict(self, instances: Sequence[Mapping[str, Any]]) -> list[Any]:
        """See `Model`."""
        windows = np.array([self._window(index, instance) for index, instance in enumerate(instances)])
        changes = self._booster.predict(window_features(windows, self._horizon, self._season))
        return forecasts(windows, changes).tolist()

    def _window(self, index: int, instance: Mapping[str, Any]) -> list[float]:
        if self._target not in instance:
            raise problem_at(index, self._target, "is missing")
        past = instance[self._target]
        if not isinstance(past, list):
            raise problem_at(index, self._target, f"must be a list of past values, not {name_of(past)}")
        if len(past) < self._lags:
            raise problem_at(index, self._target, f"has {len(past)} values; at least {self._lags} are needed")
        window = past[-self._lags :]
        for position, value in enumerate(window, len(past) - self._lags):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                raise problem_at(index, self._target, f"must contain numbers, but value {position} is {name_of(value)}")
        return window
