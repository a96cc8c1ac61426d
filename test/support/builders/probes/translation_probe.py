"""Translates with plain transformers: `python translation_probe.py` reads `[{"folder", "text", "source",
"target"}]` on stdin and prints the translations.
"""

import json
import sys

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer


@torch.inference_mode()
def translate(asked):
    tokenizer = AutoTokenizer.from_pretrained(asked["folder"])
    model = AutoModelForSeq2SeqLM.from_pretrained(asked["folder"]).eval()
    options = {}
    if asked.get("target"):
        tokenizer.src_lang = asked["source"]
        options["forced_bos_token_id"] = tokenizer.convert_tokens_to_ids(asked["target"])
    written = model.generate(**tokenizer(asked["text"], return_tensors="pt"), **options)
    return tokenizer.decode(written[0], skip_special_tokens=True)


print(json.dumps([translate(asked) for asked in json.load(sys.stdin)]))
