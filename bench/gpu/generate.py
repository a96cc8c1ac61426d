"""Runs transformers' plain `generate()`, which bench/gpu.ts compares with a chat server: `python generate.py
MODEL TOKENS PROMPT_TOKENS BATCH...` prints a JSON object with `rates` (total tokens/s of a batch) and
`first_token_ms` (after a prompt of PROMPT_TOKENS tokens).
"""

from __future__ import annotations

import json
import sys
import time

import torch
from transformers import AutoModelForCausalLM


def main(folder: str, tokens: int, prompt_tokens: int, batches: list[int]) -> None:
    """Measures each batch once, after a warm-up batch."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, device_map={"": device})
    model.eval()

    def seconds(rows: int, length: int, new: int) -> float:
        torch.manual_seed(0)
        ids = torch.randint(10, 100, (rows, length), device=device)
        began = time.monotonic()
        # Without min_new_tokens, a row could end early.
        model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, min_new_tokens=new, do_sample=False
        )
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.monotonic() - began

    with torch.inference_mode():
        seconds(1, 16, 4)
        rates = {rows: rows * tokens / seconds(rows, 16, tokens) for rows in batches}
        seconds(1, prompt_tokens, 1)
        first = seconds(1, prompt_tokens, 1)
    print("\n" + json.dumps({"rates": rates, "first_token_ms": 1000 * first}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), [int(batch) for batch in sys.argv[4:]])
