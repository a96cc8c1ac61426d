"""Loads all adapters of `tiny_adapters.py` into one model: `python adapters_probe.py BASE FOLDER`. Writes the largest
difference of the logits from those of each merged model as a share of their range, the milliseconds of a switch, and
the bytes of the base, the adapters and everything together.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[4] / "node-runtime" / "servers"))

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from llm.adapters import read_adapter
from llm.model import LanguageModel


def bytes_of(tensors: object) -> int:
    return sum(tensor.nbytes for tensor in tensors)  # type: ignore[attr-defined]


base, folder = Path(sys.argv[1]), Path(sys.argv[2])
paths = sorted(folder.glob("adapter-*"))
prompt = torch.tensor([json.loads((folder / "answers.json").read_text())["prompts"][-1]])
expected = []
for path in paths:
    plain = AutoModelForCausalLM.from_pretrained(base, dtype="auto")
    with torch.inference_mode():
        expected.append(PeftModel.from_pretrained(plain, str(path)).merge_and_unload()(prompt).logits[0, -1].float())

model = LanguageModel(base, 1)
inner = model._model
own = bytes_of(inner.parameters())
files = [read_adapter(path) for path in paths]
with torch.inference_mode():
    for number, one in enumerate(files):
        model.adapters.load(f"adapter:{number}", one)
    differences, switches = [], []
    for _ in range(3):
        for number, logits in enumerate(expected):
            began = time.perf_counter()
            model.adapters.choose(f"adapter:{number}")
            switches.append((time.perf_counter() - began) * 1000)
            found = model.forward({"input_ids": prompt}, model.new_cache(), f"adapter:{number}")[0]
            differences.append(float((found - logits).abs().max() / (logits.max() - logits.min())))
report = {
    "difference": max(differences),
    "switch_ms": statistics.median(switches),
    "base_bytes": own,
    "adapter_bytes": sum(bytes_of(one.weights.values()) for one in files),
    "all_bytes": bytes_of(inner.parameters()) + bytes_of(inner.buffers()),
}
print("\n" + json.dumps(report))
