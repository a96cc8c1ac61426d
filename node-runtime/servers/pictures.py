"""Reads the picture of a request. What it unpacks to is known from its head, before anything is unpacked."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from answers import InputProblem
from data_urls import data_of
from PIL import Image, ImageOps

FORMATS = ("PNG", "JPEG", "WEBP")
SMALLEST_SIDE = 16
MOST_PIXELS = 64_000_000
# The limit of the library has no sentence for callers; `refuse_size` has.
Image.MAX_IMAGE_PIXELS = None


def picture_of(fields: Mapping[str, Any], name: str, smallest_side: int = SMALLEST_SIDE) -> Image.Image:
    """Returns the picture of a field as RGB, upright, on white where it is transparent."""
    data = data_of(fields, name)
    try:
        picture = Image.open(io.BytesIO(data), formats=FORMATS)
        refuse_size(name, *picture.size, smallest_side)
        ImageOps.exif_transpose(picture, in_place=True)
        return _opaque(picture)
    except InputProblem:
        raise
    except Exception:
        # Decoders raise errors of many kinds for damaged bytes, none of which helps the caller.
        raise InputProblem(f"{name} must be a picture in PNG, JPEG or WebP", f"/{name}") from None


def _opaque(picture: Image.Image) -> Image.Image:
    if picture.mode.startswith("I"):
        # The library clips greys of 16 bits at 255 instead of scaling them.
        return Image.fromarray((np.asarray(picture) >> 8).astype(np.uint8)).convert("RGB")
    if not picture.has_transparency_data:
        # A copy of a large picture takes hundreds of megabytes.
        picture.load()
        return picture if picture.mode == "RGB" else picture.convert("RGB")
    shown = picture.convert("RGBA")
    white = Image.new("RGB", picture.size, "white")
    white.paste(shown, mask=shown)
    return white


def refuse_size(name: str, width: int, height: int, smallest_side: int) -> None:
    """Raises for a picture that is too small or too large."""
    what = f"{name} is a picture of {width} x {height}"
    if min(width, height) < smallest_side:
        raise InputProblem(f"{what}; each side needs at least {smallest_side} pixels", f"/{name}")
    if width * height > MOST_PIXELS:
        raise InputProblem(f"{what}; at most {MOST_PIXELS // 1_000_000} million pixels are taken", f"/{name}")


def fitted(picture: Image.Image, width: int | None, height: int | None, multiple: int, longest: int) -> Image.Image:
    """Returns the picture in the wanted size, or in its own, made divisible and no longer than that."""
    scale = min(1.0, longest / max(picture.size))
    own_width, own_height = (max(multiple, int(side * scale) // multiple * multiple) for side in picture.size)
    size = (width or own_width, height or own_height)
    return picture if size == picture.size else ImageOps.fit(picture, size, Image.Resampling.LANCZOS)
