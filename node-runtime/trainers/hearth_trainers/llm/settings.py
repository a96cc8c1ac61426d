"""The hyperparameters of a fine-tuning run, adapted to this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import JobError
from ..job import Job
from ..protocol import warn

XPU_SEQUENCE_LEN = 6144
EIGHT_BIT_OPTIMIZERS = ("adamw_8bit", "paged_adamw_8bit")


@dataclass(frozen=True)
class LoopSettings:
    """The settings of every run that trains in optimizer steps. The fields are named as in the model configs,
    which explain them.
    """

    adapter: str
    epochs: int
    max_steps: int
    learning_rate: float
    sequence_len: int
    micro_batch_size: int
    gradient_accumulation_steps: int
    lora_r: int
    lora_alpha: int
    lora_dropout: float
    val_set_size: float
    save_steps: int | str
    seed: int
    optimizer: str
    lr_scheduler: str
    warmup_ratio: float
    max_grad_norm: float

    def save_every(self, total_steps: int) -> int:
        """Returns the number of steps between checkpoints: as requested, or for `auto` and 0 about a
        twentieth of the run, at least 200.
        """
        requested = 0 if self.save_steps == "auto" else int(self.save_steps)
        return requested or max(200, round(total_steps / 20))


def read_loop_settings(job: Job, device: str) -> LoopSettings:
    """Reads a run's settings for `device`; rejects those that cannot work there."""
    settings = LoopSettings(**{name: job.param(name) for name in LoopSettings.__dataclass_fields__})
    refuse_without_cuda(settings.optimizer, device)
    return settings


@dataclass(frozen=True)
class Settings(LoopSettings):
    """The settings of language models."""

    flash_attention: str
    gradient_checkpointing: bool
    group_by_length: bool
    pad_to_sequence_len: bool
    tokenizer_cache: bool
    dataset_type: str
    text_column: str
    packing: bool


def read_settings(job: Job, device: str) -> Settings:
    """Reads the settings for `device` (`cpu`, `cuda`, `xpu`); rejects those that cannot work there."""
    given: dict[str, Any] = {name: job.param(name) for name in Settings.__dataclass_fields__ if name != "packing"}
    # Hearth 0.13 and older created runs without it.
    given["packing"] = bool(job.hyperparameters.get("packing", False))
    given["flash_attention"] = _flash(given["flash_attention"])
    if job.param("sample_packing"):
        given["group_by_length"] = True
    if "xpu" in (device, job.hardware) and given["sequence_len"] > XPU_SEQUENCE_LEN:
        warn(f"sequence_len is {XPU_SEQUENCE_LEN} on this XPU node instead of {given['sequence_len']}.")
        given["sequence_len"] = XPU_SEQUENCE_LEN
    refuse_without_cuda(given["optimizer"], device)
    return Settings(**given)


def refuse_without_cuda(optimizer: str, device: str) -> None:
    """Rejects an optimizer that this device cannot run."""
    if optimizer in EIGHT_BIT_OPTIMIZERS and device != "cuda":
        raise JobError(
            f"The optimizer {optimizer} needs a CUDA device, but this node trains on {device}; "
            "use adamw_torch, or request a GPU node with hardware_preference gpu_only.",
            code="needs_cuda",
        )


def _flash(value: str | bool) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return value
