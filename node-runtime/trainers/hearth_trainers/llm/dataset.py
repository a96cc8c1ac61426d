"""Tokenized rows, split into training and evaluation by the seed, and cached for the next attempt."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import JobError
from ..job import Job
from ..protocol import log, warn
from .notes import Notes, report_columns
from .render import Example, Renderer
from .rows import read_rows
from .settings import Settings

CACHED_DATASETS = 8
# Increment whenever row tokenization changes, or when the rules for notes or rejected rows change.
_CACHE_VERSION = 6


@dataclass(frozen=True)
class Dataset:
    """The rows for training, and those for evaluation only."""

    learn: list[Example]
    check: list[Example]
    # The columns that this dataset type doesn't use, in the format of the run's metrics.
    left_out: list[dict[str, str]]


Tokenized = tuple[list[Example], Notes, list[dict[str, str]]]


def load_dataset(job: Job, settings: Settings, tokenizer: Any, max_positions: int) -> Dataset:
    """Tokenizes the dataset."""
    log(f"Reading the dataset ({job.format}) as {settings.dataset_type}.")
    file = _cache_file(job, settings, tokenizer, max_positions) if settings.tokenizer_cache else None
    cached = _read_cache(file)
    examples, notes, left_out = cached or _tokenize(job, settings, tokenizer, max_positions)
    if cached is None and file and int(os.environ.get("RANK", "0")) == 0:
        _write_cache(file, examples, notes, left_out)
    notes.report(settings, max_positions)
    if not examples:
        raise JobError("Every row is empty: there is nothing to learn.", code="bad_data")
    if all(len(one.ids) < 2 for one in examples):
        raise JobError("No row has more than one token: there is nothing to learn.", code="bad_data")
    tokens = sum(len(one.ids) for one in examples)
    log(f"The dataset has {len(examples):,} rows with {tokens:,} tokens.")
    return _split(examples, settings, left_out)


def _tokenize(job: Job, settings: Settings, tokenizer: Any, max_positions: int) -> Tokenized:
    renderer = Renderer(tokenizer, settings, max_positions)
    rows = read_rows(job)
    left_out = report_columns(rows, settings)
    rendered = (renderer.render(row, number) for number, row in enumerate(rows, 1))
    return [one for one in rendered if one is not None], renderer.notes, left_out


def _split(examples: list[Example], settings: Settings, left_out: list[dict[str, str]]) -> Dataset:
    if settings.val_set_size == 0:
        return Dataset(examples, [], left_out)
    if len(examples) < 2:
        raise JobError("val_set_size needs at least two rows.", code="too_few_rows")
    held_out = min(len(examples) - 1, max(1, round(len(examples) * settings.val_set_size)))
    order = np.random.default_rng([settings.seed, 0]).permutation(len(examples))
    chosen = set(order[:held_out].tolist())
    learn = [one for index, one in enumerate(examples) if index not in chosen]
    return Dataset(learn, [examples[index] for index in sorted(chosen)], left_out)


def _cache_file(job: Job, settings: Settings, tokenizer: Any, max_positions: int) -> Path | None:
    if job.cache_dir is None:
        return None
    shaping = asdict(settings)
    rules = [
        _CACHE_VERSION,
        max_positions,
        *(shaping[name] for name in ("dataset_type", "text_column", "sequence_len")),
    ]
    digest = hashlib.sha256(json.dumps(rules).encode())
    digest.update(job.data_digest().encode())
    digest.update(tokenizer.backend_tokenizer.to_str().encode() if tokenizer.is_fast else repr(tokenizer).encode())
    digest.update(str(tokenizer.chat_template).encode())
    # Rows end with a special token, and templates insert others. Special tokens are declared in a separate file, so
    # two base models with the same vocabulary may differ only in them.
    digest.update(json.dumps(tokenizer.special_tokens_map, sort_keys=True, default=str).encode())
    return job.cache_dir / f"tokens-{digest.hexdigest()[:32]}.npz"


def _read_cache(file: Path | None) -> Tokenized | None:
    if file is None or not file.exists():
        return None
    try:
        with np.load(file, allow_pickle=False) as stored:
            ids, labels, ends = stored["ids"].tolist(), stored["labels"].tolist(), stored["ends"].tolist()
            found, left_out = json.loads(str(stored["notes"]))
    except (OSError, ValueError, KeyError) as error:
        warn(f"The tokens cached by an earlier attempt cannot be read ({error}).")
        return None
    log("Using the tokens cached by an earlier attempt.")
    os.utime(file)
    starts = [0, *ends[:-1]]
    examples = [Example(ids[start:end], labels[start:end]) for start, end in zip(starts, ends, strict=True)]
    return examples, Notes(found), left_out


def _write_cache(file: Path, examples: list[Example], notes: Notes, left_out: list[dict[str, str]]) -> None:
    if not examples:
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_name(f".{file.stem}.{os.getpid()}.npz")
        np.savez(
            draft,
            ids=np.concatenate([np.asarray(one.ids, np.int32) for one in examples]),
            labels=np.concatenate([np.asarray(one.labels, np.int32) for one in examples]),
            ends=np.cumsum([len(one.ids) for one in examples]),
            notes=np.array(json.dumps([notes.found, left_out])),
        )
        os.replace(draft, file)
        cached = sorted(file.parent.glob("tokens-*.npz"), key=lambda one: one.stat().st_mtime)
        for old in cached[:-CACHED_DATASETS]:
            old.unlink(missing_ok=True)
    except OSError as error:
        warn(f"The tokens could not be cached for later attempts ({error}).")
