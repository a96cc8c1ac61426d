"""Compares the engine of the language model server with transformers alone, for tiny models of several architectures.
Usage: `python lanes_probe.py TOKENIZER_FOLDER NAME[:ROPE_TYPE]...`; prints a JSON object for each architecture.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[4] / "node-runtime" / "servers"))

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from llm import engine as engines
from llm.engine import Engine
from llm.generation import Generation
from llm.model import LanguageModel
from llm.options import Sampling

LENGTHS = (40, 5, 90, 17, 33)
NEW_TOKENS = 12
# All requests are interrupted once, after the oldest one has this many tokens.
INTERRUPTED_AT = 7
VOCABULARY = 384
# Longer than some prompts; the first one outgrows it.
SHORT_TEXT = 44
SMALL = {
    **dict.fromkeys(("hidden_size", "n_embd"), 64),
    **dict.fromkeys(("num_hidden_layers", "n_layer"), 4),
    **dict.fromkeys(("num_attention_heads", "n_head"), 4),
    **dict.fromkeys(("intermediate_size", "n_inner"), 96),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 512),
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": VOCABULARY,
    "sliding_window": 24,
    "use_sliding_window": True,
    "is_decoder": True,
    "num_local_experts": 4,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
ROPES = {
    # The longest text fills the context.
    "dynamic": {"max_position_embeddings": max(LENGTHS) + NEW_TOKENS, "rope_parameters": {"factor": 8.0}},
    "longrope": {
        "original_max_position_embeddings": SHORT_TEXT,
        "rope_parameters": {
            "original_max_position_embeddings": SHORT_TEXT,
            **{f"{size}_factor": [factor] * 8 for size, factor in (("short", 1.0), ("long", 8.0))},
            "short_mscale": 1.0,
            "long_mscale": 1.2,
        },
    },
}
for chunks in (engines.PREFILL_CHUNK, engines.SHARED_CHUNK):
    chunks["cpu"] = 16


def write_model(name: str, folder: str) -> None:
    """Writes a model with random weights that are large enough for distinct logits."""
    name, _, rope = name.partition(":")
    usual = AutoConfig.for_model(name).to_dict()
    sizes = {key: size for key, size in SMALL.items() if key in usual}
    kinds = sorted(set(usual.get("layer_types") or ()))
    more: dict[str, Any] = {"layer_types": (kinds * 4)[:4]} if kinds else {}
    if rope:
        more |= ROPES[rope]
        more["rope_parameters"] = {"rope_type": rope, "rope_theta": 10_000.0, **more["rope_parameters"]}
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(name, **{**sizes, **more}), dtype=torch.float32)
    for weights in model.parameters():
        if weights.ndim > 1:
            torch.nn.init.normal_(weights, std=0.08)
    model.save_pretrained(folder)


def compare(name: str, tokenizer: str) -> dict[str, object]:
    """Returns whether rows were computed together, and whether all texts are the expected ones."""
    with tempfile.TemporaryDirectory() as folder:
        write_model(name, folder)
        AutoTokenizer.from_pretrained(tokenizer).save_pretrained(folder)
        model = LanguageModel(Path(folder), 1)
        alone = AutoModelForCausalLM.from_pretrained(folder, dtype="auto").eval()
    # No token ends a response, so that all of them have the same length.
    model.ends = frozenset()
    numbers = random.Random(0)
    prompts = [[numbers.randrange(3, VOCABULARY) for _ in range(length)] for length in LENGTHS]
    engine = Engine(model, len(prompts), 1 << 30)
    sizes: set[int] = set()
    forward = model.forward

    def watch(
        inputs: dict[str, torch.Tensor], cache: Any, adapter: str | None = None, length: int | None = None
    ) -> torch.Tensor:
        sizes.add(len(inputs["input_ids"]))
        return forward(inputs, cache, adapter, length)

    model.forward = watch
    texts: list[list[int]] = [[] for _ in prompts]

    def interrupt() -> None:
        for row in reversed(engine._admitted):
            engine._postpone(row)

    def on_token(token: int, text: list[int]) -> bool:
        text.append(token)
        if text is texts[0] and len(text) == INTERRUPTED_AT:
            engine.change(interrupt)
        return True

    started = []
    for prompt, text in zip(prompts, texts, strict=True):
        generation = Generation(prompt, Sampling(max_tokens=NEW_TOKENS, temperature=0))
        started.append(engine.generate(generation, lambda token, text=text: on_token(token, text)))
    for one in started:
        one.result(timeout=60)
    # BART's own settings force an end token, which the server ignores.
    alone.generation_config.forced_eos_token_id = None
    expected = []
    for prompt in prompts:
        ids = torch.tensor([prompt])
        new = alone.generate(ids, max_new_tokens=NEW_TOKENS, do_sample=False, eos_token_id=-1, pad_token_id=0)
        expected.append(new[0, len(prompt) :].tolist())
    return {"together": max(sizes) > 2, "equal": texts == expected}


print("\n" + json.dumps({name: compare(name, sys.argv[1]) for name in sys.argv[2:]}))
