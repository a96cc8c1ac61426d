"""Entry point: `python -m hearth_trainers.llm.compare job.json`. Checks that a merged model yields the same
logits as its base with the adapters: see ../../README.md.
"""

from __future__ import annotations

import gc
import json
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from peft.tuners.lora import LoraLayer
from transformers import AutoTokenizer
from transformers.utils import logging

from ..errors import JobError
from ..protocol import emit
from .device import own_device
from .model import load_base

PROMPTS = (
    "The quick brown fox jumps over the lazy dog.",
    "def add(a, b):\n    return a + b\n",
    "What is the capital of France?",
    "Solve for x: 3x + 7 = 22. First subtract 7",
)
MAX_TOKENS = 64
# Shares of the span between the highest and the lowest logit of a prompt. Rounding merged weights
# to bf16 moves logits by 0.001 to 0.008 of the span (random models of up to 8 layers). A difference
# of more than half of the adapters' own effect is also a failure, unless it is within that noise.
NOISE = 0.02
TOLERANCE = 0.05


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter and its weight."""

    folder: Path
    weight: float


@torch.inference_mode()
def compare(base: Path, adapters: list[Adapter], merged: Path, gpus: int = 0) -> list[dict[str, Any]]:
    """Returns each prompt's largest logit difference, and the limit. Only one model is in memory at a time."""
    device = own_device(gpus)
    tokenizer = AutoTokenizer.from_pretrained(merged, trust_remote_code=False, local_files_only=True)
    prompts = [tokenizer(prompt)["input_ids"][:MAX_TOKENS] for prompt in PROMPTS]

    model = load_base(base, torch.bfloat16, device_map={"": device})
    plain = _logits(model, prompts, device)
    model = _under(model, adapters)
    expected = _logits(model, prompts, device)
    del model
    gc.collect()
    model = load_base(merged, torch.bfloat16, device_map={"": device})
    found = _logits(model, prompts, device)
    return [_verdict(*one) for one in zip(PROMPTS, plain, expected, found, strict=True)]


def _under(model: Any, adapters: list[Adapter]) -> Any:
    """Applies all adapters at once to the base, each with its weight."""
    first, *others = adapters
    peft = PeftModel.from_pretrained(model, first.folder, adapter_name="0")
    for number, adapter in enumerate(others, 1):
        peft.load_adapter(adapter.folder, adapter_name=str(number))
    for module in peft.modules():
        if isinstance(module, LoraLayer):
            for name in module.scaling:
                module.scaling[name] *= adapters[int(name)].weight
    if others:
        peft.base_model.set_adapter([str(number) for number in range(len(adapters))])
    return peft.eval()


def _logits(model: Any, prompts: list[list[int]], device: torch.device) -> list[torch.Tensor]:
    # No token of the prompt attends to padding at the end.
    longest = max(len(ids) for ids in prompts)
    batch = torch.tensor([ids + [0] * (longest - len(ids)) for ids in prompts], device=device)
    with _in_float32(model):
        logits = model(input_ids=batch, use_cache=False).logits.float().cpu()
    return [one[: len(ids)] for one, ids in zip(logits, prompts, strict=True)]


@contextmanager
def _in_float32(model: Any) -> Iterator[None]:
    """Computes in float32 with weights that stay in bf16: each module converts its own
    weights while it uses them."""
    narrow: dict[Any, torch.Tensor] = {}

    def widen(module: Any, *_: Any) -> None:
        for parameter in module.parameters(recurse=False):
            if parameter.dtype == torch.bfloat16:
                narrow[parameter] = parameter.data
                parameter.data = parameter.data.float()

    def restore(module: Any, *_: Any) -> None:
        for parameter in module.parameters(recurse=False):
            if parameter in narrow:
                parameter.data = narrow.pop(parameter)

    hooks = []
    for module in model.modules():
        if any(True for _ in module.parameters(recurse=False)):
            hooks += [module.register_forward_pre_hook(widen), module.register_forward_hook(restore)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _verdict(prompt: str, plain: torch.Tensor, expected: torch.Tensor, found: torch.Tensor) -> dict[str, Any]:
    if found.shape != expected.shape:
        raise JobError(
            f"The merged model has {found.shape[-1]} logits, but its base has {expected.shape[-1]}.", code="bad_base"
        )
    span = float(expected.max() - expected.min())
    effect = float((expected - plain).abs().max())
    difference = float((found - expected).abs().max())
    limit = max(NOISE * span, min(TOLERANCE * span, effect / 2))
    # A difference of NaN is never within the limit.
    return {"prompt": prompt, "difference": difference, "limit": limit, "effect": effect, "passed": difference <= limit}


def main(path: Path) -> int:
    """Exits as trainers do: with 0, with 64 if these files cannot be compared, or with 1 for any other error."""
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        job = json.loads(path.read_text(encoding="utf-8"))
        torch.set_num_threads(int(job["threads"]))
        adapters = [Adapter(Path(one["dir"]), float(one["weight"])) for one in job["adapters"]]
        gpus = int(job.get("gpus") or 0)
        emit("result", prompts=compare(Path(job["base_dir"]), adapters, Path(job["merged_dir"]), gpus))
        return 0
    except JobError as error:
        emit("error", code=error.code, message=str(error))
        return 64
    except Exception as error:
        traceback.print_exc()
        emit("error", code="comparison_failed", message=f"{type(error).__name__}: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
