"""Loads a model the way its server does, and prints which costly modules that loaded. Usage:
`python start_probe.py FOLDER`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[4] / "node-runtime" / "servers"))

from light_torch import without_compiler
from llm.engine import Engine
from llm.generation import Generation
from llm.grammar import Grammars
from llm.model import LanguageModel
from llm.options import Sampling


def is_compiled(model: LanguageModel) -> bool:
    """Returns whether PyTorch has compiled the model. Imports PyTorch's compiler, so call it last."""
    import torch

    with without_compiler():
        return isinstance(model, torch._dynamo.OptimizedModule)


model = LanguageModel(Path(sys.argv[1]), 1)
Grammars(model)
said: list[int] = []
engine = Engine(model, 1, 1 << 20)
generation = Generation([1, 2, 3], Sampling(max_tokens=2, temperature=0))
engine.generate(generation, lambda token: said.append(token) is None).result()
costly = ["torch._dynamo", "torch._inductor", "torch.distributed.tensor", "llguidance"]
loaded = [name for name in costly if name in sys.modules]

print("\n" + json.dumps({"said": len(said), "loaded": loaded, "compiled": is_compiled(model)}))
