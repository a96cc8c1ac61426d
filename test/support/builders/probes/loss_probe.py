"""Compares the trainer's loss with the loss that transformers computes from all logits of a batch."""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

_VOCABULARY = 64


def losses(request: dict[str, Any]) -> Any:
    """Returns the relative differences of the loss and all gradients, and whether the loss was computed in chunks."""
    import torch
    import torch.nn.functional as F

    from hearth_trainers.llm import token_loss
    from hearth_trainers.llm.render import IGNORED

    token_loss.CHUNK_LOGITS = 7 * _VOCABULARY
    model = tiny_model(request["family"], request["adapter"])
    ids = torch.arange(3, 51).reshape(2, 24)
    labels = ids.clone()
    labels[0, :10] = IGNORED
    labels[1, 20:] = IGNORED
    if request.get("muted"):
        labels[:] = IGNORED
    mask = (torch.arange(24) < torch.tensor([[24], [20]])).long()

    loss = token_loss.TokenLoss(model, torch.device("cpu"), ids[0].tolist())
    inputs = {"input_ids": ids, "attention_mask": mask}
    found = loss(model, inputs, labels)
    found_grads = gradients(model, found)
    logits = model(**inputs, use_cache=False).logits[:, :-1].float().flatten(0, 1)
    expected = F.cross_entropy(logits, labels[:, 1:].flatten(), ignore_index=IGNORED, reduction="sum")
    expected_grads = gradients(model, expected)
    with torch.no_grad():
        evaluated = loss(model.eval(), inputs, labels)
    return {
        "chunked": loss.is_chunked,
        "loss": relative(found.detach(), expected.detach()),
        "evaluated": relative(evaluated, expected.detach()),
        "gradients": relative(found_grads, expected_grads),
        "size": float(expected_grads.norm()),
    }


def packing(request: dict[str, Any]) -> Any:
    """Compares one batch of packed rows with the same rows in padded batches: the number of packed rows, samples and
    targets, and the relative differences of the loss and all gradients. `warned` is true if nothing was packed.
    """
    import torch

    from hearth_trainers.llm.dataset import Dataset
    from hearth_trainers.llm.render import IGNORED, Example
    from hearth_trainers.llm.tokens import NextToken

    model = tiny_model(request["family"], request["adapter"], request.get("sizes", {}))
    generator = torch.Generator().manual_seed(7)
    rows = [torch.randint(3, _VOCABULARY, (length,), generator=generator).tolist() for length in (5, 17, 9, 12, 3, 8)]
    learn = [Example(row, [IGNORED] * (number % 3) + row[number % 3 :]) for number, row in enumerate(rows)]
    plain: Any = SimpleNamespace(
        packing=False, group_by_length=True, pad_to_sequence_len=request.get("pad", False),
        sequence_len=request.get("sequence_len", 20), seed=3,
        micro_batch_size=8, gradient_accumulation_steps=1, max_steps=0, epochs=1,
    )  # fmt: skip
    packed: Any = SimpleNamespace(**{**plain.__dict__, "packing": True})
    log = io.TextIOWrapper(io.BytesIO())
    found = []
    for settings in (plain, packed):
        with contextlib.redirect_stdout(log):
            objective = NextToken(
                Dataset(learn, [], []),
                settings,
                model=model,
                pad_id=0,
                max_positions=20,
                device=torch.device("cpu"),
                world=1,
            )
        [batch], targets = objective.step(0, 0)
        loss = objective.loss(model, batch)
        found.append((batch, targets, loss.detach(), gradients(model, loss)))
    (padded, targets, loss, plain_gradients), (batch, packed_targets, packed_loss, packed_gradients) = found
    log.seek(0)
    return {
        "warned": "not packed" in log.read(),
        "rows": list(batch.inputs["input_ids"].shape),
        "tokens": [padded.tokens, batch.tokens],
        "targets": [targets, packed_targets, batch.targets],
        "loss": relative(packed_loss, loss),
        "gradients": relative(packed_gradients, plain_gradients),
    }


def tiny_model(family: str, adapter: str, more: dict[str, Any] | None = None) -> Any:
    """Loads a random model of a family the way the trainer does, in float32, with LoRA layers that have an effect."""
    import torch
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    from hearth_trainers.llm.model import load_model
    from llm_probe import SIZES

    torch.manual_seed(0)
    sizes = {"initializer_range": 0.3, **SIZES[family], **(more or {})}
    config = CONFIG_MAPPING[family](vocab_size=_VOCABULARY, bos_token_id=1, eos_token_id=2, pad_token_id=0, **sizes)
    settings: Any = SimpleNamespace(
        adapter=adapter, flash_attention="auto", gradient_checkpointing=True,
        lora_r=4, lora_alpha=8, lora_dropout=0.0, seed=1,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
        AutoModelForCausalLM.from_config(config).save_pretrained(Path(folder))
        model = load_model(Path(folder), settings, torch.device("cpu")).float().train()
    for name, one in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(one, std=0.1)
    return model


def relative(found: Any, expected: Any) -> float:
    """Returns the size of a difference relative to the expected values."""
    return float((found - expected).norm() / expected.norm().clamp_min(1e-12))


def gradients(model: Any, loss: Any) -> Any:
    """Returns the gradients of all trained weights as one vector, and removes them."""
    import torch

    loss.backward()
    trained = [one for one in model.parameters() if one.requires_grad]
    found = torch.cat([torch.zeros(one.numel()) if one.grad is None else one.grad.flatten() for one in trained])
    model.zero_grad(set_to_none=True)
    return found
