"""Finds the weights that an engine reads: those of the repository, or what was converted from them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from specialist.engine import Engine
from specialist.layout import BadModel, Layout

# The places of a repository's own file and of a converted one.
PLACES = ("onnx/model.onnx", "model.onnx")


def places_of(model: Path, converted: str) -> list[Path]:
    """Returns the folders in which files are looked for, the first one first."""
    return [*([Path(converted)] if converted else []), model]


def open_engine(layout: Layout, places: Sequence[Path], threads: int) -> Engine:
    """Opens the weights with onnxruntime."""
    from specialist.onnx_engine import OnnxEngine

    path = find_onnx(places)
    if path is None:
        raise BadModel("its folder has no ONNX file, and none was made from its weights")
    return OnnxEngine(path, threads, has_head=layout.has_head)


def find_onnx(places: Sequence[Path]) -> Path | None:
    """Returns the ONNX file; what was converted comes before what the repository brings."""
    return next((place / name for place in places for name in PLACES if (place / name).is_file()), None)
