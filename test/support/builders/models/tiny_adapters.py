"""Writes LoRA adapters with random weights for a model, and what the merged models answer:
`python tiny_adapters.py FOLDER BASE COUNT`. `answers.json` has the greedy tokens of each merged model for each prompt.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM

PROMPTS = [[7, 50, 12], [9, 33, 41, 8, 100, 64, 17], list(range(10, 60))]
NEW_TOKENS = 12
# Large enough to change the tokens of most answers.
SCALE = 0.05


def write(folder: Path, base: str, number: int) -> list[list[int]]:
    """Writes one adapter; returns the tokens of its merged model."""
    torch.manual_seed(number)
    model = AutoModelForCausalLM.from_pretrained(base, dtype="auto")
    config = LoraConfig(r=8, lora_alpha=16, lora_dropout=0.5, target_modules="all-linear", task_type="CAUSAL_LM")
    tuned = get_peft_model(model, config)
    for name, weights in tuned.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weights, std=SCALE)
    tuned.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    plain = AutoModelForCausalLM.from_pretrained(base, dtype="auto")
    return answers_of(PeftModel.from_pretrained(plain, str(folder)).merge_and_unload())


def answers_of(model: torch.nn.Module) -> list[list[int]]:
    """Returns the greedy tokens for each prompt, without an end token."""
    end = model.generation_config.eos_token_id
    answers: list[list[int]] = []
    for prompt in PROMPTS:
        ids = torch.tensor([prompt])
        found = model.eval().generate(ids, max_new_tokens=NEW_TOKENS, do_sample=False, eos_token_id=end)
        answers.append([token for token in found[0, len(prompt) :].tolist() if token != end])
    return answers


target, source, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
merged = [write(target / f"adapter-{number}", source, number) for number in range(count)]
own = answers_of(AutoModelForCausalLM.from_pretrained(source, dtype="auto"))
(target / "answers.json").write_text(json.dumps({"prompts": PROMPTS, "base": own, "adapters": merged}))
