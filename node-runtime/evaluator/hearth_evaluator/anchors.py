"""Draws the texts of a run from a dataset."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from hearth_trainers.datasets.tables import read_table
from hearth_trainers.errors import JobError


def draw_texts(dataset: dict[str, Any], *, field: str, count: int, seed: int, memory_mb: int) -> list[str]:
    """Returns `count` distinct texts of a column, in an order determined by the seed."""
    # `read_table` uses only these fields of a job.
    job: Any = SimpleNamespace(format=dataset["format"], paths=[Path(dataset["path"])], memory_mb=memory_mb)
    table = read_table(job)
    if field not in table.column_names:
        raise JobError(f"The dataset has no column '{field}'.", code="no_text_field")
    texts = [text for text in dict.fromkeys(table.column(field).to_pylist()) if isinstance(text, str) and text.strip()]
    if len(texts) < count:
        raise JobError(
            f"The column '{field}' has {len(texts)} different texts; {count} are needed.", code="too_few_anchors"
        )
    order = np.random.default_rng([seed, 0]).permutation(len(texts))[:count]
    return [texts[row] for row in order]
