"""A model that reads the text in an image. TrOCR reads one line; Donut reads a page, optionally with field
names.
"""

from __future__ import annotations

import base64
import io
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from images import image_of
from light_torch import without_compiler
from torch_tasks.writer import Writer

with without_compiler():
    from transformers import AutoImageProcessor, AutoTokenizer, VisionEncoderDecoderModel

# No letter is legible with fewer pixels.
MIN_SIDE = 8
# A larger image is first reduced to about the size that the model sees.
MAX_WHOLE_PIXELS = 16_000_000
# Beyond this aspect ratio, an image gets black bars, because its preparation first enlarges the shorter side.
MAX_ASPECT_RATIO = 8
# Donut writes `<s_total>12.30</s_total>`, and `<sep/>` between the items of a list.
TAG = re.compile(r"<(/?)s_([^<>]*)>|<sep/>")


class Reader:
    """Weights, tokenizer and the image preprocessing; one image at a time."""

    task = "ocr"

    # The first access imports parts of the library.
    @without_compiler()
    def __init__(self, folder: Path, threads: int) -> None:
        torch.set_num_threads(threads)
        # A combined processor contains only these two, and some repositories do not name its class.
        self._prepare = AutoImageProcessor.from_pretrained(folder, local_files_only=True)
        size = self._prepare.size
        self._seen_side = max(size.height or 0, size.width or 0)
        # Other models stretch each side independently.
        self._keeps_shape = bool(getattr(self._prepare, "do_thumbnail", False))
        self._tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self._writer = Writer.load(VisionEncoderDecoderModel, folder)
        self._unseen = {self._tokenizer.bos_token_id, self._tokenizer.eos_token_id, self._tokenizer.pad_token_id}
        self._has_fields = any(map(TAG.fullmatch, self._tokenizer.get_vocab()))

    @property
    def facts(self) -> dict[str, Any]:
        """The facts that the health check reports about the model."""
        return {"max_tokens": self._writer.positions}

    def probe(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Adds an image to the first request after a load."""
        file = io.BytesIO()
        Image.new("RGB", (64, 64), "white").save(file, "PNG")
        return {**body, "image_url": f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"}

    @torch.inference_mode()
    def __call__(self, body: Mapping[str, Any], disconnected: threading.Event) -> dict[str, Any]:
        """Reads one image; raises `InputProblem` if it's invalid, `CallerDisconnected` once `disconnected` is
        set.
        """
        image = image_of(body, "image_url", MIN_SIDE, self._factors)
        if self._keeps_shape:
            image = _with_bars(image, self._seen_side)
        seen = self._prepare(image, return_tensors="pt")
        written = self._writer.write({"pixel_values": seen["pixel_values"]}, disconnected)
        answer = self._texts(written)
        if self._writer.is_cut(written):
            answer["truncated"] = True
        return answer

    def _factors(self, width: int, height: int) -> tuple[int, int]:
        if width * height <= MAX_WHOLE_PIXELS or not self._seen_side:
            return (1, 1)
        across, down = (max(1, side // self._seen_side) for side in (width, height))
        larger = max(across, down)
        return (larger, larger) if self._keeps_shape else (across, down)

    def _texts(self, written: torch.Tensor) -> dict[str, Any]:
        if not self._has_fields:
            return {"text": self._tokenizer.decode(written, skip_special_tokens=True).strip()}
        kept = [token for token in written[1:].tolist() if token not in self._unseen]
        blocks = list(blocks_of(self._tokenizer.decode(kept)))
        return {"text": "\n".join(block["text"] for block in blocks), "blocks": blocks}


def _with_bars(image: Image.Image, seen_side: int) -> Image.Image:
    """Pads a narrow image with black bars before its preparation, which would first enlarge 3000 x 8 pixels
    to gigabytes, and then shrink them to nothing.
    """
    if max(image.size) <= MAX_ASPECT_RATIO * min(image.size):
        return image
    image.thumbnail((2 * seen_side, 2 * seen_side))
    least = -(-max(image.size) // MAX_ASPECT_RATIO)
    barred = Image.new("RGB", (max(image.width, least), max(image.height, least)))
    barred.paste(image, ((barred.width - image.width) // 2, (barred.height - image.height) // 2))
    return barred


def blocks_of(text: str) -> Iterator[dict[str, str]]:
    """Yields the text between tags, with the names of the fields around it."""
    fields: list[str] = []
    at = 0
    for tag in [*TAG.finditer(text), None]:
        piece = text[at : tag.start() if tag else len(text)].strip()
        if piece:
            yield {"text": piece, **({"field": ".".join(fields)} if fields else {})}
        if tag is None:
            return
        at = tag.end()
        closes, name = tag[1] == "/", tag[2]
        if name is None:
            continue
        if not closes:
            fields.append(name)
        elif name in fields:
            del fields[len(fields) - 1 - fields[::-1].index(name) :]
