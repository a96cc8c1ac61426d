"""Inspects models and renderings for tests: JSON requests on standard input, as many JSON
responses on standard output."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def render(request: dict[str, Any]) -> Any:
    """Rows as the trainer sees them: each token with whether it is learnt."""
    from hearth_trainers.llm.model import load_tokenizer, max_positions
    from hearth_trainers.llm.render import IGNORED, Renderer

    folder = Path(request["model"])
    tokenizer = load_tokenizer(folder)
    settings = SimpleNamespace(**{"text_column": "text", "sequence_len": 8192, **request["settings"]})
    renderer = Renderer(tokenizer, settings, max_positions(folder))
    found = []
    for number, row in enumerate(request["rows"], 1):
        one = renderer.render(row, number)
        learnt = [label != IGNORED for label in one.labels]
        assert all(label in (IGNORED, token) for label, token in zip(one.labels, one.ids, strict=True))
        found.append({"ids": one.ids, "tokens": [tokenizer.decode([token]) for token in one.ids], "learnt": learnt})
    return {"rows": found, "cut": renderer.cut, "eos": tokenizer.eos_token}


def assistant_mask(request: dict[str, Any]) -> Any:
    """Returns the tokens that the chat template itself marks as the assistant's."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(request["model"])
    answer = tokenizer.apply_chat_template(
        request["messages"], return_assistant_tokens_mask=True, return_dict=True, tokenize=True
    )
    return {"ids": answer["input_ids"], "mask": answer["assistant_masks"]}


def logits(request: dict[str, Any]) -> Any:
    """Largest difference between a merged model and its base under the adapter, and how far the adapter moved the base."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    ids = torch.arange(1, 60).unsqueeze(0)
    with torch.no_grad():
        base = AutoModelForCausalLM.from_pretrained(request["base"], dtype=torch.float32)
        plain = base(ids).logits
        adapted = PeftModel.from_pretrained(base, request["adapter"])(ids).logits
        merged = AutoModelForCausalLM.from_pretrained(request["merged"], dtype=torch.float32)(ids).logits
    return {"difference": (adapted - merged).abs().max().item(), "moved": (adapted - plain).abs().max().item()}


def compare(request: dict[str, Any]) -> Any:
    """Returns the verdicts of a candidate's test, as one list for each of the merged models."""
    from hearth_trainers.llm.compare import Adapter, compare

    adapters = [Adapter(Path(one["dir"]), one["weight"]) for one in request["adapters"]]
    verdicts = [compare(Path(request["base"]), adapters, Path(merged)) for merged in request["merged"]]
    return [[{**one, "difference": _number(one["difference"])} for one in each] for each in verdicts]


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def settings(request: dict[str, Any]) -> Any:
    """Hyperparameters as a device follows them, and the learning rate of some steps as shares of its peak."""
    from dataclasses import asdict

    from hearth_trainers.job import Job
    from hearth_trainers.llm.optimize import rate_at
    from hearth_trainers.llm.settings import read_settings

    here = Path()
    job = Job("t", "t", "jsonl", (), request["hyperparameters"], here, here, None, 1, 5, hardware=request.get("hardware"))
    found = read_settings(job, request["device"])
    total = request["steps"]
    rates = [rate_at(step, total, found) for step in range(total)]
    return {**asdict(found), "save_every": found.save_every(total), "rates": rates}


if __name__ == "__main__":
    asks = {"settings": settings, "render": render, "assistant_mask": assistant_mask, "logits": logits, "compare": compare}
    answers = [asks[request["ask"]](request) for request in json.load(sys.stdin)]
    print("\n" + json.dumps(answers))
