"""Generates greedily with transformers alone: reads `{"model", "requests": [{"prompt", "max_tokens"}]}` from standard
input, and writes the new tokens of each request, without an end token, to standard output.
"""

from __future__ import annotations

import json
import sys

import torch
from transformers import AutoModelForCausalLM

asked = json.load(sys.stdin)
model = AutoModelForCausalLM.from_pretrained(asked["model"], dtype="auto").eval()
ends = model.generation_config.eos_token_id
answers: list[list[int]] = []
for request in asked["requests"]:
    prompt = torch.tensor([request["prompt"]])
    found = model.generate(prompt, max_new_tokens=request["max_tokens"], do_sample=False, eos_token_id=ends)
    new = found[0, prompt.shape[1] :].tolist()
    answers.append([token for token in new if token != ends])
print("\n" + json.dumps(answers))
