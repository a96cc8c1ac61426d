"""Finds the weights that an engine reads: the repository's own, or those converted from them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from specialist.engine import Engine
from specialist.layout import BadModel, Layout

# The paths of a repository's own file and of a converted one.
PLACES = ("onnx/model.onnx", "model.onnx")


def places_of(model: Path, converted: str) -> list[Path]:
    """Returns the folders to search for files, in order."""
    return [*([Path(converted)] if converted else []), model]


def open_engine(layout: Layout, places: Sequence[Path], threads: int) -> Engine:
    """Opens the weights with onnxruntime."""
    from specialist.onnx_engine import OnnxEngine

    path = find_onnx(places)
    if path is None:
        raise BadModel("its folder has no ONNX file, and none was converted from its weights")
    return OnnxEngine(path, threads, has_head=layout.has_head)


def find_onnx(places: Sequence[Path]) -> Path | None:
    """Returns the ONNX file; a converted one takes precedence over the repository's own."""
    return next((place / name for place in places for name in PLACES if (place / name).is_file()), None)
