"""The job file."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from .errors import JobError
from .json_values import is_list

# Options for observing and saving a run, which do not affect the model.
_NOT_IN_DIGEST = frozenset({"checkpoint_every_epochs", "save_steps", "tokenizer_cache"})


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...


@dataclass(frozen=True)
class Job:
    """A training job: the trainer, its data, and the folders for its output."""

    job_id: str
    trainer: str
    format: str
    paths: tuple[Path, ...]
    hyperparameters: dict[str, Any]
    output_dir: Path
    checkpoint_dir: Path
    resume_from: Path | None
    threads: int
    checkpoint_interval_s: float
    # The model to start from: a Hugging Face folder, or the artifact of an earlier run.
    base_dir: Path | None = None
    # The commit of the base's repository.
    base_revision: str | None = None
    # Attempts share this folder; everything in it can be recreated.
    cache_dir: Path | None = None
    # The number of processes that share the work, one per accelerator.
    processes: int = 1
    # The hardware in the node's inventory: cpu, gpu or xpu.
    hardware: str | None = None
    # The number of GPUs that are reserved for this run; with one or more it must not compute on the CPU.
    gpus: int = 0
    # The memory limit of this run; None if there is none.
    memory_mb: int | None = None

    def param(self, name: str) -> Any:
        """Returns a hyperparameter; the caller of the trainer fills in every default."""
        try:
            return self.hyperparameters[name]
        except KeyError:
            raise JobError(f"The job names no hyperparameter {name}.", code="bad_job") from None

    def digest(self) -> str:
        """Returns a digest of everything that determines the model. A checkpoint is
        valid for one digest only."""
        shaping = {name: value for name, value in self.hyperparameters.items() if name not in _NOT_IN_DIGEST}
        digest = hashlib.sha256()
        digest.update(json.dumps([self.trainer, self.format, shaping], sort_keys=True).encode())
        if self.processes > 1:
            digest.update(f"\n{self.processes}\n".encode())
        if self.base_dir:
            _feed_base(digest, self.base_dir)
        self._feed_data(digest)
        return digest.hexdigest()

    def data_digest(self) -> str:
        """Returns a digest of the dataset's content."""
        digest = hashlib.sha256()
        self._feed_data(digest)
        return digest.hexdigest()

    def _feed_data(self, digest: _Digest) -> None:
        for path in self.paths:
            for name, file in _files(path):
                digest.update(f"\n{name}\n".encode())
                _feed(digest, file)


def read_job(path: Path) -> Job:
    """Reads and checks a job file."""
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        dataset = body["dataset"]
        resume_from, base_dir, cache_dir = (body.get(name) for name in ("resume_from", "base_dir", "cache_dir"))
        return Job(
            job_id=str(body.get("job_id", "")),
            trainer=str(body["trainer"]),
            format=str(dataset["format"]),
            paths=tuple(Path(one) for one in dataset["paths"]),
            hyperparameters=_settings(body.get("hyperparameters") or {}, str(dataset["format"])),
            output_dir=Path(body["output_dir"]),
            checkpoint_dir=Path(body["checkpoint_dir"]),
            resume_from=Path(resume_from) if resume_from else None,
            threads=max(1, int(body.get("threads", 1))),
            checkpoint_interval_s=float(body.get("checkpoint_interval_s", 5)),
            base_dir=Path(base_dir) if base_dir else None,
            base_revision=str(body["base_revision"]) if body.get("base_revision") else None,
            cache_dir=Path(cache_dir) if cache_dir else None,
            processes=max(1, int(body.get("processes", 1))),
            hardware=str(body["hardware"]) if body.get("hardware") else None,
            gpus=int(body.get("gpus") or 0),
            memory_mb=int(body["memory_mb"]) if body.get("memory_mb") else None,
        )
    except KeyError as error:
        raise JobError(f"The job file lacks {error.args[0]}.", code="bad_job") from error
    except (OSError, ValueError, TypeError) as error:
        raise JobError(f"The job file cannot be read: {error}", code="bad_job") from error


def _settings(given: dict[str, Any], form: str) -> dict[str, Any]:
    """Returns the hyperparameters. CSV column names are trimmed, because profiles of older datasets kept the
    spaces around them.
    """
    if form != "csv":
        return dict(given)
    names = {name: value for name, value in given.items() if name.endswith("_column") and isinstance(value, str)}
    lists = {name: value for name, value in given.items() if name.endswith("_columns") and is_list(value)}
    return {
        **given,
        **{name: value.strip(" ") for name, value in names.items()},
        **{name: [str(one).strip(" ") for one in value] for name, value in lists.items()},
    }


def _files(path: Path) -> list[tuple[str, Path]]:
    if not path.is_dir():
        return [(path.suffix, path)]
    return sorted((str(file.relative_to(path)), file) for file in path.rglob("*") if file.is_file())


def _feed_base(digest: _Digest, base: Path) -> None:
    # Weights are many gigabytes, so the digest covers only name, size and first bytes, which contain tensor
    # names, shapes and the first values.
    for name, file in _files(base):
        digest.update(f"\n{name} {file.stat().st_size}\n".encode())
        with file.open("rb") as stream:
            digest.update(stream.read(1 << 20))


def _feed(digest: _Digest, file: Path) -> None:
    try:
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise JobError(f"The dataset file cannot be read: {error}", code="bad_job") from error
