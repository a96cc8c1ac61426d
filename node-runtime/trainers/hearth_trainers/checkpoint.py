"""Checkpoints. Each is a single file, which is either complete or absent."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .protocol import emit, warn

MAX_CHECKPOINTS = 3
_NAME = re.compile(r"checkpoint-(\d+)\.zip")


@dataclass
class Checkpoint:
    """The progress of a run after `epoch`, and the learner's state in named parts."""

    digest: str
    epoch: int
    history: list[dict[str, Any]]
    parts: dict[str, bytes] = field(repr=False)


def write_checkpoint(directory: Path, checkpoint: Checkpoint) -> Path:
    """Writes a draft, flushes and renames it; then reports the checkpoint, and deletes the oldest one."""
    directory.mkdir(parents=True, exist_ok=True)
    body = _pack(checkpoint)
    path = directory / f"checkpoint-{checkpoint.epoch:08d}.zip"
    replace_file(path, body)
    emit(
        "checkpoint",
        path=str(path),
        epoch=checkpoint.epoch,
        size_bytes=len(body),
        sha256=hashlib.sha256(body).hexdigest(),
    )
    stored = sorted(entry for entry in directory.iterdir() if _NAME.fullmatch(entry.name))
    for old in stored[:-MAX_CHECKPOINTS]:
        old.unlink(missing_ok=True)
    return path


def read_checkpoint(path: Path, digest: str) -> Checkpoint | None:
    """Reads a checkpoint of this job; any other is reported and ignored."""
    try:
        with zipfile.ZipFile(path) as archive:
            state = json.loads(archive.read("state.json"))
            parts = {name: archive.read(name) for name in archive.namelist() if name != "state.json"}
        checkpoint = Checkpoint(state["digest"], int(state["epoch"]), list(state["history"]), parts)
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        warn(f"The checkpoint cannot be read ({error}); training starts afresh.")
        return None
    if checkpoint.digest != digest:
        warn("The checkpoint belongs to another configuration or dataset; training starts afresh.")
        return None
    return checkpoint


def replace_file(path: Path, body: bytes) -> None:
    """Writes `body` to `path` so that a reader finds either the old file or the new
    one, even after a power cut."""
    draft = path.with_name(f".{path.name}.draft")
    with draft.open("wb") as stream:
        stream.write(body)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(draft, path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _pack(checkpoint: Checkpoint) -> bytes:
    state = {"digest": checkpoint.digest, "epoch": checkpoint.epoch, "history": checkpoint.history}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("state.json", json.dumps(state))
        for name, part in checkpoint.parts.items():
            archive.writestr(name, part)
    return buffer.getvalue()
