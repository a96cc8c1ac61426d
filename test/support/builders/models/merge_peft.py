"""Trains adapters with PEFT (`merge_peft.py train BASE ADAPTERS KIND...`) or compares our merges with PEFT's
(`merge_peft.py compare BASE ADAPTERS MERGED KIND...`).

Adapters and our merges of them are in folders named after their kind. `compare` prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM

KINDS: dict[str, dict[str, Any]] = {"lora": {}, "dora": {"use_dora": True}, "saved": {"modules_to_save": ["lm_head"]}}


def train(base: str, adapters: str, *kinds: str) -> None:
    """Trains a few real steps, so that both factors are far from zero."""
    for kind in kinds:
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16)
        targets = ["q_proj", "v_proj", "down_proj"]
        config = LoraConfig(r=8, lora_alpha=16, target_modules=targets, task_type="CAUSAL_LM", **KINDS[kind])
        peft = get_peft_model(model, config)
        optimizer = torch.optim.AdamW(peft.parameters(), lr=5e-3)
        tokens = torch.randint(0, model.config.vocab_size, (4, 24))
        for _ in range(20):
            loss = peft(input_ids=tokens, labels=tokens).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        peft.save_pretrained(Path(adapters, kind))


def compare(base: str, adapters: str, merged: str, *kinds: str) -> None:
    """Prints the largest difference between the logits of our merge and of PEFT's float32 merge, both stored
    in bf16.
    """
    print(json.dumps({kind: _compare(base, Path(adapters, kind), Path(merged, kind)) for kind in kinds}))


def _compare(base: str, adapter: Path, merged: Path) -> dict[str, float]:
    plain = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    theirs = PeftModel.from_pretrained(plain, adapter).merge_and_unload().to(torch.bfloat16).to(torch.float32)
    ours = AutoModelForCausalLM.from_pretrained(merged, dtype=torch.bfloat16).to(torch.float32)
    unchanged = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    tokens = torch.arange(0, 96).reshape(4, 24) % plain.config.vocab_size
    with torch.no_grad():
        wanted, found, before = (model(input_ids=tokens).logits for model in (theirs, ours, unchanged))
    return {"difference": (wanted - found).abs().max().item(), "effect": (wanted - before).abs().max().item()}


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    {"train": train, "compare": compare}[command](*arguments)
