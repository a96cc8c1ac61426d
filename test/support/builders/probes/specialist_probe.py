"""Answers a list of requests from standard input with the results of plain transformers."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[4] / "node-runtime" / "servers"))

import torch

# Without the compiler, the import takes half the time, and models compute the same numbers.
from light_torch import without_compiler

with without_compiler():
    from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer


# The first access imports parts of the library.
@without_compiler()
@cache
def opened(folder: str, *, has_head: bool) -> tuple[Any, Any]:
    """Returns the tokenizer and the model in a folder."""
    kind = AutoModelForSequenceClassification if has_head else AutoModel
    return AutoTokenizer.from_pretrained(folder), kind.from_pretrained(folder, dtype=torch.float32).eval()


@torch.inference_mode()
def embed(request: dict[str, Any]) -> list[list[float]]:
    """Returns the vectors of the given texts, computed one at a time."""
    tokenizer, model = opened(request["folder"], has_head=False)
    vectors = []
    for text in request["texts"]:
        inputs = tokenizer(text, truncation=True, return_tensors="pt")
        hidden = model(**inputs).last_hidden_state[0][request.get("skipped", 0) :]
        pooling = request.get("pooling", "mean")
        vector = hidden[0] if pooling == "cls" else hidden.max(dim=0).values if pooling == "max" else hidden.mean(dim=0)
        if request.get("normalized", True):
            vector = torch.nn.functional.normalize(vector, dim=0)
        vectors.append(vector.tolist())
    return vectors


@torch.inference_mode()
def classify(request: dict[str, Any]) -> list[list[float]]:
    """Returns the logits of texts or pairs, one at a time."""
    tokenizer, model = opened(request["folder"], has_head=True)
    found = []
    for text in request["texts"]:
        # Pass each text in a list, as rerankers are called: a pair keeps its second part even if that is empty.
        found.append(model(**tokenizer([text], truncation=True, return_tensors="pt")).logits[0].tolist())
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    asked = json.load(sys.stdin)
    print(json.dumps([{"embed": embed, "classify": classify}[one["ask"]](one) for one in asked]))
