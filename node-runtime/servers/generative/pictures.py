"""Reads the picture of a request. What it unpacks to is known from its head, before anything is unpacked."""

from __future__ import annotations

import base64
import binascii
import io
import re
from collections.abc import Mapping
from typing import Any

from answers import InputProblem
from PIL import Image, ImageOps

FORMATS = ("PNG", "JPEG", "WEBP")
MOST_BYTES = 50 << 20
SMALLEST_SIDE = 16
MOST_PIXELS = 64_000_000
# The limit of the library has no sentence for callers; `refuse_size` has.
Image.MAX_IMAGE_PIXELS = None
DATA_URL = re.compile(r"data:(?:[\w.+-]+/[\w.+-]+)?(?:;[\w.+-]+=[\w.+-]+)*;base64,", re.ASCII)


def data_of(fields: Mapping[str, Any], name: str) -> bytes:
    """Returns the bytes of a `data:` URL, which is how a server without a network is given a file."""
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise InputProblem(f"{name} must be the URL of a file", f"/{name}")
    head = DATA_URL.match(value)
    if not head:
        raise InputProblem(f"{name} must be a data: URL in base64 here; the node fetches others", f"/{name}")
    if len(value) > MOST_BYTES * 4 // 3 + len(head[0]) + 4:
        raise InputProblem(f"{name} is larger than {MOST_BYTES >> 20} MB", f"/{name}")
    try:
        return base64.b64decode(value[head.end() :], validate=True)
    except binascii.Error:
        raise InputProblem(f"{name} is not valid base64", f"/{name}") from None


def picture_of(fields: Mapping[str, Any], name: str) -> Image.Image:
    """Returns the picture of a field as RGB, upright."""
    data = data_of(fields, name)
    try:
        picture = Image.open(io.BytesIO(data), formats=FORMATS)
        refuse_size(name, *picture.size)
        return ImageOps.exif_transpose(picture).convert("RGB")
    except InputProblem:
        raise
    except Exception:
        # Decoders raise errors of many kinds for damaged bytes, none of which helps the caller.
        raise InputProblem(f"{name} must be a picture in PNG, JPEG or WebP", f"/{name}") from None


def refuse_size(name: str, width: int, height: int) -> None:
    """Raises for a picture that is too small or too large."""
    what = f"{name} is a picture of {width} x {height}"
    if min(width, height) < SMALLEST_SIDE:
        raise InputProblem(f"{what}; each side needs at least {SMALLEST_SIDE} pixels", f"/{name}")
    if width * height > MOST_PIXELS:
        raise InputProblem(f"{what}; at most {MOST_PIXELS // 1_000_000} million pixels are taken", f"/{name}")


def fitted(picture: Image.Image, width: int | None, height: int | None, multiple: int, longest: int) -> Image.Image:
    """Returns the picture in the wanted size, or in its own, made divisible and no longer than that."""
    scale = min(1.0, longest / max(picture.size))
    own_width, own_height = (max(multiple, int(side * scale) // multiple * multiple) for side in picture.size)
    size = (width or own_width, height or own_height)
    return picture if size == picture.size else ImageOps.fit(picture, size, Image.Resampling.LANCZOS)
