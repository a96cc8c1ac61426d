"""Times transformers' plain `generate()`, which bench/gpu.ts compares with a chat server: `python generate.py MODEL`
reads a JSON object with `contents` (the messages of a batch) and `tokens` (per chat) from each line of standard input,
and prints the wall-clock and CPU seconds.
"""

from __future__ import annotations

import json
import os
import sys
import time

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def main(folder: str) -> None:
    """Processes input lines until standard input ends."""
    device = os.environ.get("HEARTH_DEVICE", "cpu")
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, device_map={"": device}).eval()
    print("ready", flush=True)
    for line in sys.stdin:
        batch = json.loads(line)
        began, cpu = time.perf_counter(), time.process_time()
        chats = [[{"role": "user", "content": content}] for content in batch["contents"]]
        inputs = tokenizer.apply_chat_template(
            chats, add_generation_prompt=True, padding=True, return_tensors="pt", return_dict=True
        )
        tokens = batch["tokens"]
        with torch.inference_mode():
            # Without min_new_tokens, a row could end early.
            outputs = model.generate(**inputs.to(device), max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False)
        tokenizer.batch_decode(outputs[:, -tokens:].cpu())
        print(time.perf_counter() - began, time.process_time() - cpu, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
