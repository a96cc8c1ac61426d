"""LightGBM without scikit-learn, which accounts for three quarters of its import time. Only LightGBM's estimators
need it, and no trainer uses them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import cast

SKLEARN = "sklearn"


@contextmanager
def _without_sklearn() -> Iterator[None]:
    if SKLEARN in sys.modules:
        yield
        return
    # Python then reports that there is no such module.
    sys.modules[SKLEARN] = cast(ModuleType, None)
    try:
        yield
    finally:
        del sys.modules[SKLEARN]


with _without_sklearn():
    from lightgbm import Booster, Dataset, train
    from lightgbm.basic import LightGBMError
    from lightgbm.callback import EarlyStopException

__all__ = ["Booster", "Dataset", "EarlyStopException", "LightGBMError", "train"]
