"""Folds an adapter with PEFT and compares logits: `python merge_peft.py BASE ADAPTER OURS`. Prints one line of JSON."""

from __future__ import annotations

import json
import sys

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM


def train(base: str, adapter: str) -> None:
    """A few steps of real training, so that both factors are far from zero."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16)
    config = LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj", "down_proj"], task_type="CAUSAL_LM")
    peft = get_peft_model(model, config)
    optimizer = torch.optim.AdamW(peft.parameters(), lr=5e-3)
    tokens = torch.randint(0, model.config.vocab_size, (4, 24))
    for _ in range(20):
        loss = peft(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    peft.save_pretrained(adapter)


def compare(base: str, adapter: str, ours: str) -> None:
    """Largest difference of logits: of our merge, and of PEFT's in float32, each stored in bf16."""
    plain = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    merged = PeftModel.from_pretrained(plain, adapter).merge_and_unload().to(torch.bfloat16).to(torch.float32)
    own = AutoModelForCausalLM.from_pretrained(ours, dtype=torch.bfloat16).to(torch.float32)
    unchanged = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    tokens = torch.arange(0, 96).reshape(4, 24) % plain.config.vocab_size
    with torch.no_grad():
        wanted, found, before = (model(input_ids=tokens).logits for model in (merged, own, unchanged))
    print(
        json.dumps(
            {
                "difference": (wanted - found).abs().max().item(),
                "effect": (wanted - before).abs().max().item(),
            }
        )
    )


if __name__ == "__main__":
    command, *paths = sys.argv[1:]
    {"train": train, "compare": compare}[command](*paths)
