"""The input and the result of a trainer module."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from .datasets.tables import Codes
from .job import Job
from .loop import EpochLoop


@dataclass(frozen=True)
class Run:
    """One training run: the job, its data, and the loop to report to."""

    job: Job
    table: pa.Table
    loop: EpochLoop
    # The original text of columns whose numbers may be codes, for trainers that set `LEARNS_CLASSES`.
    codes: Codes = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """A trained model, ready to be written as an artifact."""

    task: str
    target: str
    metrics: dict[str, float]
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    example_input: dict[str, Any]
    example_output: dict[str, Any]
    # The name of the model's file, and all files except the manifest.
    model_file: str
    files: dict[str, bytes] = field(repr=False)
    # The columns of the dataset that the model does not learn from, as `describe_left_out` returns them.
    left_out: list[dict[str, str]]
    # Manifest fields that only this task has.
    extra: dict[str, Any] = field(default_factory=dict)
