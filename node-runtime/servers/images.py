"""Reads a request's image. The header gives the decoded size, so we check it before decoding anything."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from PIL import ExifTags, Image, ImageOps

from answers import InputProblem
from data_urls import data_of

FORMATS = ("PNG", "JPEG", "WEBP")
MIN_SIDE = 16
MAX_PIXELS = 64_000_000
# A copy of a large image takes hundreds of megabytes, so it is converted in strips of about this many pixels.
STRIP_PIXELS = 1_000_000
WHOLE = (1, 1)
# The library's limit has no message for callers; `refuse_size` has one.
Image.MAX_IMAGE_PIXELS = None


def image_of(
    fields: Mapping[str, Any],
    name: str,
    smallest_side: int = MIN_SIDE,
    factors_of: Callable[[int, int], tuple[int, int]] = lambda *_: WHOLE,
) -> Image.Image:
    """Returns the image of a field as RGB, upright, with transparent parts on white. `factors_of` returns the
    integer factors by which to reduce its width and height.
    """
    data = data_of(fields, name)
    try:
        image = Image.open(io.BytesIO(data), formats=FORMATS)
        refuse_size(name, image.width, image.height, smallest_side)
        # Loading also reads everything that determines which side is up.
        image.load()
        turn = image.getexif().get(ExifTags.Base.Orientation, 1)
        # The last four of the eight orientations swap width and height.
        if turn > 4:
            down, across = factors_of(image.height, image.width)
        else:
            across, down = factors_of(image.width, image.height)
        image = _opaque(image, (across, down))
        image.getexif()[ExifTags.Base.Orientation] = turn
        ImageOps.exif_transpose(image, in_place=True)
        return image
    except InputProblem:
        raise
    except Exception:
        # Decoders raise many kinds of errors for damaged bytes, none of which helps the caller.
        raise InputProblem(f"{name} must be an image in PNG, JPEG or WebP", f"/{name}") from None


def _opaque(image: Image.Image, factors: tuple[int, int]) -> Image.Image:
    if factors == WHOLE and image.mode == "RGB" and not image.has_transparency_data:
        return image
    across, down = factors
    # Rounds up, as the library does.
    shown = Image.new("RGB", (-(-image.width // across), -(-image.height // down)))
    rows = down * max(1, STRIP_PIXELS // (image.width * down))
    for top in range(0, image.height, rows):
        strip = image.crop((0, top, image.width, min(top + rows, image.height)))
        shown.paste(_opaque_strip(strip).reduce(factors), (0, top // down))
    return shown


def _opaque_strip(strip: Image.Image) -> Image.Image:
    if strip.mode.startswith("I"):
        # The library clips 16-bit gray values at 255 instead of scaling them.
        return Image.fromarray((np.asarray(strip) >> 8).astype(np.uint8)).convert("RGB")
    if not strip.has_transparency_data:
        return strip.convert("RGB")
    shown = strip.convert("RGBA")
    white = Image.new("RGB", strip.size, "white")
    white.paste(shown, mask=shown)
    return white


def refuse_size(name: str, width: int, height: int, smallest_side: int) -> None:
    """Raises `InputProblem` for an image that is too small or too large."""
    what = f"{name} is an image of {width} x {height}"
    if min(width, height) < smallest_side:
        raise InputProblem(f"{what}; each side needs at least {smallest_side} pixels", f"/{name}")
    if width * height > MAX_PIXELS:
        raise InputProblem(f"{what}; at most {MAX_PIXELS // 1_000_000} million pixels are accepted", f"/{name}")


def fitted(image: Image.Image, width: int | None, height: int | None, multiple: int, longest: int) -> Image.Image:
    """Returns the image in the requested size. Missing sides default to its own, scaled down to at most
    `longest` and rounded down to multiples of `multiple`.
    """
    scale = min(1.0, longest / max(image.size))
    own_width, own_height = (max(multiple, int(side * scale) // multiple * multiple) for side in image.size)
    size = (width or own_width, height or own_height)
    return image if size == image.size else ImageOps.fit(image, size, Image.Resampling.LANCZOS)
