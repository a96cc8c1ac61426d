"""Inspects models and renderings for tests: reads JSON requests from standard input and writes one JSON response for
each to standard output."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def render(request: dict[str, Any]) -> Any:
    """Returns rows as the trainer sees them: each token and whether the model learns it."""
    from hearth_trainers.errors import JobError
    from hearth_trainers.llm.model import load_tokenizer, max_positions
    from hearth_trainers.llm.render import IGNORED, Renderer

    folder = Path(request["model"])
    tokenizer = load_tokenizer(folder)
    settings: Any = SimpleNamespace(**{"text_column": "text", "sequence_len": 8192, **request["settings"]})
    tokenizer.chat_template = request.get("template", tokenizer.chat_template)
    renderer = Renderer(tokenizer, settings, max_positions(folder))
    found = []
    rows = _through_parquet(request["rows"]) if request.get("format") == "parquet" else request["rows"]
    for number, row in enumerate(rows, 1):
        try:
            one = renderer.render(row, number)
        except JobError as error:
            found.append({"error": str(error)})
            continue
        if one is None:
            continue
        learnt = [label != IGNORED for label in one.labels]
        assert all(label in (IGNORED, token) for label, token in zip(one.labels, one.ids, strict=True))
        found.append({"ids": one.ids, "tokens": [tokenizer.decode([token]) for token in one.ids], "learnt": learnt})
    notes = renderer.notes.found
    return {"rows": found, "cut": notes.get("cut", [0])[0], "notes": notes, "eos": tokenizer.eos_token}


def _through_parquet(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    import tempfile

    import pyarrow as pa
    import pyarrow.parquet as pq

    from hearth_trainers.job import Job
    from hearth_trainers.llm.rows import read_rows

    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "rows.parquet"
        pq.write_table(pa.Table.from_pylist(rows), file)
        return read_rows(Job("t", "t", "parquet", (file,), {}, Path(place), Path(place), None, 1, 5))


def cached(request: dict[str, Any]) -> Any:
    """Returns the dataset's tokens for each set of special tokens. All sets share one cache."""
    import tempfile

    from hearth_trainers.job import Job
    from hearth_trainers.llm.dataset import load_dataset
    from hearth_trainers.llm.model import load_tokenizer, max_positions
    from hearth_trainers.llm.settings import read_settings

    found = []
    with tempfile.TemporaryDirectory() as place:
        here, file = Path(place), Path(place) / "rows.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in request["rows"]), encoding="utf-8")
        for tokens in request["special_tokens"]:
            folder = Path(request["model"])
            tokenizer = load_tokenizer(folder)
            for name, token in tokens.items():
                setattr(tokenizer, name, token)
            job = Job("t", "t", "jsonl", (file,), request["hyperparameters"], here, here, None, 1, 5, cache_dir=here)
            data = load_dataset(job, read_settings(job, "cpu"), tokenizer, max_positions(folder))
            found.append([tokenizer.decode(one.ids) for one in data.learn])
    return found


def positions(request: dict[str, Any]) -> Any:
    """Returns each config's maximum sequence length."""
    import tempfile

    from hearth_trainers.llm.model import max_positions

    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "config.json"
        found = []
        for config in request["configs"]:
            file.write_text(json.dumps(config), encoding="utf-8")
            found.append(max_positions(Path(place)))
    return found


def assistant_mask(request: dict[str, Any]) -> Any:
    """Returns the tokens that the chat template marks as the assistant's."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(request["model"])
    answer = tokenizer.apply_chat_template(
        request["messages"], return_assistant_tokens_mask=True, return_dict=True, tokenize=True
    )
    return {"ids": answer["input_ids"], "mask": answer["assistant_masks"]}


def logits(request: dict[str, Any]) -> Any:
    """Returns the largest difference between a merged model and its base with the adapter, and how much the adapter
    changed the base."""
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
    """Returns the verdicts of a candidate's test, one list per merged model."""
    from hearth_trainers.llm.compare import Adapter, compare

    adapters = [Adapter(Path(one["dir"]), one["weight"]) for one in request["adapters"]]
    verdicts = [compare(Path(request["base"]), adapters, Path(merged)) for merged in request["merged"]]
    return [[{**one, "difference": _number(one["difference"])} for one in each] for each in verdicts]


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def settings(request: dict[str, Any]) -> Any:
    """Returns the hyperparameters that apply on a device, and the learning rate at some steps relative to its
    peak.
    """
    from dataclasses import asdict

    from hearth_trainers.job import Job
    from hearth_trainers.llm.optimize import rate_at
    from hearth_trainers.llm.settings import read_settings

    here = Path()
    job = Job(
        "t", "t", "jsonl", (), request["hyperparameters"], here, here, None, 1, 5, hardware=request.get("hardware")
    )
    found = read_settings(job, request["device"])
    total = request["steps"]
    rates = [rate_at(step, total, found) for step in range(total)]
    return {**asdict(found), "save_every": found.save_every(total), "rates": rates}


SIZES: dict[str, dict[str, Any]] = {
    "bloom": {"hidden_size": 16, "n_layer": 1, "n_head": 2},
    "codegen": {"n_embd": 16, "n_layer": 1, "n_head": 4, "rotary_dim": 4, "n_positions": 64},
    "falcon": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2},
    "falcon_h1": {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 12,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "mamba_d_ssm": 32,
        "mamba_n_heads": 4,
        "mamba_d_head": 8,
        "mamba_n_groups": 1,
        "mamba_d_state": 8,
        "mamba_chunk_size": 16,
        "initializer_range": 0.1,
    },
    "gemma2": {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 8,
    },
    "gpt2": {
        "n_embd": 16,
        "n_layer": 1,
        "n_head": 2,
        "n_positions": 64,
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
    },
    "gpt_neo": {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_layers": 1,
        "num_heads": 2,
        "attention_types": [[["global"], 1]],
        "max_position_embeddings": 64,
    },
    "gpt_oss": {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 8,
        "num_local_experts": 2,
        "num_experts_per_tok": 1,
        "layer_types": ["full_attention"],
    },
    "gptj": {"n_embd": 16, "n_layer": 1, "n_head": 2, "rotary_dim": 4, "n_positions": 64},
    "granite": {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "logits_scaling": 4.0,
    },
    "lfm2": {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 16,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "layer_types": ["full_attention", "conv"] * 8,
        "initializer_range": 0.1,
    },
    "llama": {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "tie_word_embeddings": True,
    },
    "mamba": {"hidden_size": 16, "state_size": 4, "num_hidden_layers": 1},
    "mpt": {"d_model": 16, "n_heads": 2, "n_layers": 1},
}


def family(request: dict[str, Any]) -> Any:
    """Loads a tiny random model of a family the way the trainer does, trains it, and merges the adapter into it.
    Returns whether it learns, the number of trained weights, and the largest logit difference between the merged and
    the trained model."""
    import contextlib
    import io
    import tempfile

    import torch
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    from hearth_trainers.llm.model import load_base, load_model
    from hearth_trainers.llm.outputs import write_adapter, write_merged

    name = request["family"]
    torch.manual_seed(0)
    config = CONFIG_MAPPING[name](vocab_size=64, bos_token_id=1, eos_token_id=2, pad_token_id=0, **SIZES[name])
    settings: Any = SimpleNamespace(
        adapter=request["adapter"], flash_attention=request["flash_attention"], gradient_checkpointing=False,
        lora_r=4, lora_alpha=8, lora_dropout=0.0, seed=1,
    )  # fmt: skip
    ids = torch.arange(3, 35).unsqueeze(0)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
        base, out = Path(folder) / "base", Path(folder) / "out"
        AutoModelForCausalLM.from_config(config).save_pretrained(base)
        model = load_model(base, settings, torch.device("cpu"))
        trained = [one for one in model.parameters() if one.requires_grad]
        optimizer = torch.optim.SGD(trained, lr=0.5)
        before = model(input_ids=ids, labels=ids).loss.item()
        for _ in range(3):
            model(input_ids=ids, labels=ids).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        after = model.eval()(input_ids=ids, labels=ids)
        if settings.adapter == "none":
            write_merged(out, base, settings, model)
        else:
            write_adapter(model, out, "acme/tiny", None)
            write_merged(out, base, settings, None)
        merged = load_base(out / "model", torch.float32)(input_ids=ids).logits
    return {
        "learns": after.loss.item() < before,
        "parameters": sum(one.numel() for one in trained),
        "difference": float((merged - after.logits.float()).abs().max()),
    }


if __name__ == "__main__":
    import kernel_probe
    import loss_probe

    asks: dict[str, Any] = {"family": family}
    asks |= {
        "settings": settings,
        "render": render,
        "assistant_mask": assistant_mask,
        "logits": logits,
        "compare": compare,
    }
    asks |= {"cached": cached, "positions": positions, "losses": loss_probe.losses, "packing": loss_probe.packing}
    asks |= {"kernels": kernel_probe.kernels, "choice": kernel_probe.choice}
    answers = [asks[request["ask"]](request) for request in json.load(sys.stdin)]
    print("\n" + json.dumps(answers))
