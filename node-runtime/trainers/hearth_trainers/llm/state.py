"""Checkpoints of a fine-tuning run: one file with everything that the next step depends on."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import re
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from ..protocol import emit, warn

MAX_CHECKPOINTS = 2
_NAME = re.compile(r"checkpoint-(\d+)\.zip")
_FORMAT = "hearth-finetune/1"


@dataclass
class Position:
    """The progress of a run: optimizer steps, the losses of completed epochs, and the
    sums of the current one."""

    step: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    loss_sum: float = 0.0
    targets: int = 0
    tokens: int = 0


@dataclass(frozen=True)
class Learner:
    """The objects whose state changes from step to step."""

    model: Any
    optimizer: Any
    scheduler: Any
    device: torch.device
    uses_liger: bool

    def weights(self) -> dict[str, torch.Tensor]:
        """Returns the parameters that are trained."""
        return {name: one for name, one in self.model.named_parameters() if one.requires_grad}


def random_state(device: torch.device) -> dict[str, Any]:
    """Returns the state of this process's random generators."""
    state = {"python": random.getstate(), "numpy": np.random.get_state(legacy=False), "torch": torch.get_rng_state()}
    if device.type != "cpu":
        state["device"] = getattr(torch, device.type).get_rng_state(device)
    return state


def write_state(
    directory: Path, digest: str, position: Position, learner: Learner, randoms: list[dict[str, Any]]
) -> None:
    """Writes a draft, flushes and renames it; then reports the checkpoint, and deletes the oldest one.
    `randoms` has one entry per process.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"checkpoint-{position.step:08d}.zip"
    draft = path.with_name(f".{path.name}.draft")
    weights = {name: one.detach().cpu().contiguous() for name, one in learner.weights().items()}
    described = {"format": _FORMAT, "digest": digest, "processes": len(randoms), **position.__dict__}
    described["liger"] = learner.uses_liger
    with draft.open("wb") as stream:
        # Weights hardly compress, and compressing them would take longer than storing them.
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(
                "state.json", json.dumps({**described, "randoms": [_randoms_json(one) for one in randoms]})
            )
            archive.writestr("weights.safetensors", save_tensors(weights))
            for name, part in (("optimizer.pt", learner.optimizer), ("scheduler.pt", learner.scheduler)):
                with archive.open(name, "w", force_zip64=True) as member:
                    torch.save(part.state_dict(), member)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(draft, path)
    _flush_directory(directory)
    with path.open("rb") as stream:
        # The `llm` environment has Python 3.11 or newer.
        hashed = hashlib.file_digest(stream, "sha256")  # pyright: ignore[reportAttributeAccessIssue]
        sha256 = hashed.hexdigest()
    emit("checkpoint", path=str(path), epoch=position.step, size_bytes=path.stat().st_size, sha256=sha256)
    stored = sorted(entry for entry in directory.iterdir() if _NAME.fullmatch(entry.name))
    for old in stored[:-MAX_CHECKPOINTS]:
        old.unlink(missing_ok=True)


def read_state(path: Path, digest: str, learner: Learner, rank: int) -> Position | None:
    """Restores a learner from a checkpoint. A damaged checkpoint, or one from another run, is reported and
    changes nothing.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            state = json.loads(archive.read("state.json"))
            if state["format"] != _FORMAT or state["digest"] != digest:
                warn("The checkpoint belongs to another configuration, base or dataset; training starts afresh.")
                return None
            weights = load_tensors(archive.read("weights.safetensors"))
            optimizer, scheduler = (
                torch.load(io.BytesIO(archive.read(name)), map_location="cpu", weights_only=True)
                for name in ("optimizer.pt", "scheduler.pt")
            )
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, zipfile.BadZipFile) as error:
        warn(f"The checkpoint cannot be read ({error}); training starts afresh.")
        return None
    own = learner.weights()
    if own.keys() != weights.keys():
        warn("The weights in the checkpoint are not the ones being trained now; training starts afresh.")
        return None
    with torch.no_grad():
        for name, one in own.items():
            one.copy_(weights[name])
    learner.optimizer.load_state_dict(optimizer)
    learner.scheduler.load_state_dict(scheduler)
    _restore_randoms(state["randoms"][min(rank, len(state["randoms"]) - 1)], learner.device)
    return Position(**{name: state[name] for name in Position.__dataclass_fields__})


def was_written_with_liger(path: Path | None) -> bool | None:
    """Returns whether the run that wrote a checkpoint used Liger's kernels; None without a readable checkpoint."""
    if path is None:
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            return bool(json.loads(archive.read("state.json")).get("liger", False))
    except (OSError, ValueError, KeyError, AttributeError, zipfile.BadZipFile):
        return None


def _randoms_json(state: dict[str, Any]) -> dict[str, Any]:
    version, numbers, gauss = state["python"]
    tensors = {name: state[name].tolist() for name in ("torch", "device") if name in state}
    return {"python": [version, list(numbers), gauss], "numpy": _plain(state["numpy"]), **tensors}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


def _restore_randoms(state: dict[str, Any], device: torch.device) -> None:
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    inner = dict(state["numpy"]["state"])
    inner["key"] = np.asarray(inner["key"], dtype=np.uint32)
    np.random.set_state({**state["numpy"], "state": inner})
    torch.set_rng_state(torch.tensor(state["torch"], dtype=torch.uint8))
    if "device" in state and device.type != "cpu":
        getattr(torch, device.type).set_rng_state(torch.tensor(state["device"], dtype=torch.uint8), device)


def _flush_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
