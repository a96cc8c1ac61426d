"""Reads images with plain transformers: `python reading_probe.py` reads `[{"folder", "picture"}]` from stdin,
images in base64, and prints the recognized text without special tokens.
"""

import base64
import io
import json
import sys

import torch
from PIL import Image
from transformers import DonutProcessor, TrOCRProcessor, VisionEncoderDecoderModel


@torch.inference_mode()
def read(asked):
    model = VisionEncoderDecoderModel.from_pretrained(asked["folder"]).eval()
    kind = DonutProcessor if model.config.decoder.model_type == "mbart" else TrOCRProcessor
    processor = kind.from_pretrained(asked["folder"])
    picture = Image.open(io.BytesIO(base64.b64decode(asked["picture"]))).convert("RGB")
    written = model.generate(processor(picture, return_tensors="pt").pixel_values)
    return processor.batch_decode(written, skip_special_tokens=True)[0]


print(json.dumps([read(asked) for asked in json.load(sys.stdin)]))
