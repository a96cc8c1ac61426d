"""LightGBM's C library without its Python package.

Importing the package costs 0.6 s and 90 MB, most of it for scikit-learn and SciPy, but a server needs only
a handful of functions. Predicting one prepared row with a small model takes 2 microseconds;
`Booster.predict` takes 19.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
import threading
from pathlib import Path

import numpy as np

from hearth_trainers.files import muted_stderr

_NORMAL = 0
_FLOAT64 = 1
_ROW_MAJOR = 1


class LightGBMError(RuntimeError):
    """Raised if the library returns an error."""


def _library() -> ctypes.CDLL:
    spec = importlib.util.find_spec("lightgbm")
    if spec is None or not spec.submodule_search_locations:
        raise LightGBMError("The package lightgbm is not installed in this environment.")
    folder = Path(spec.submodule_search_locations[0])
    name = {"win32": "lib_lightgbm.dll", "darwin": "lib_lightgbm.dylib"}.get(sys.platform, "lib_lightgbm.so")
    found = next((path for path in (folder / "lib" / name, folder / "bin" / name) if path.exists()), None)
    if found is None:
        raise LightGBMError(f"{name} is not in {folder}.")
    library = ctypes.CDLL(str(found))
    library.LGBM_GetLastError.restype = ctypes.c_char_p
    return library


class NativeBooster:
    """A model in LightGBM's text format. The buffer for the prepared row is shared, so threads predict one at
    a time.
    """

    def __init__(self, model: Path, threads: int) -> None:
        self._library = _library()
        self._booster = ctypes.c_void_p()
        rounds = ctypes.c_int()
        with muted_stderr():
            self._call(
                "LGBM_BoosterCreateFromModelfile",
                str(model).encode(),
                ctypes.byref(rounds),
                ctypes.byref(self._booster),
            )
        self.width = self._count("LGBM_BoosterGetNumFeature")
        self.outputs = self._count("LGBM_BoosterGetNumClasses")
        self._threads = threads
        self._lock = threading.Lock()
        self._row = np.zeros(self.width, dtype=np.float64)
        self._out = np.zeros(self.outputs, dtype=np.float64)
        self._prepare()

    def predict(self, rows: np.ndarray) -> np.ndarray:
        """Predicts rows of shape `(n, width)` and returns values of shape `(n, outputs)`."""
        if len(rows) == 1:
            return self._predict_row(rows[0])
        rows = np.ascontiguousarray(rows, dtype=np.float64)
        out = np.empty((len(rows), self.outputs), dtype=np.float64)
        length = ctypes.c_int64()
        self._call(
            "LGBM_BoosterPredictForMat",
            self._booster,
            _address(rows),
            _FLOAT64,
            ctypes.c_int32(len(rows)),
            ctypes.c_int32(self.width),
            _ROW_MAJOR,
            _NORMAL,
            0,
            -1,
            f"num_threads={self._threads}".encode(),
            ctypes.byref(length),
            _address(out),
        )
        return out

    def _predict_row(self, row: np.ndarray) -> np.ndarray:
        with self._lock:
            self._row[:] = row
            if self._fast(self._config, self._row_at, self._length_at, self._out_at) != 0:
                raise LightGBMError(self._message())
            return self._out.reshape(1, -1).copy()

    def _prepare(self) -> None:
        self._config = ctypes.c_void_p()
        self._call(
            "LGBM_BoosterPredictForMatSingleRowFastInit",
            self._booster,
            _NORMAL,
            0,
            -1,
            _FLOAT64,
            ctypes.c_int32(self.width),
            b"num_threads=1",
            ctypes.byref(self._config),
        )
        self._length = ctypes.c_int64()
        self._length_at = ctypes.byref(self._length)
        self._row_at = _address(self._row)
        self._out_at = _address(self._out)
        self._fast = self._library.LGBM_BoosterPredictForMatSingleRowFast

    def _count(self, function: str) -> int:
        value = ctypes.c_int()
        self._call(function, self._booster, ctypes.byref(value))
        return value.value

    def _call(self, function: str, *arguments: object) -> None:
        if getattr(self._library, function)(*arguments) != 0:
            raise LightGBMError(self._message())

    def _message(self) -> str:
        return self._library.LGBM_GetLastError().decode(errors="replace")


def _address(array: np.ndarray) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)
