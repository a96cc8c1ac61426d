"""The objective of a run: its batches and its loss. The loop in `training.py` does everything else."""

from __future__ import annotations

from typing import Any, Protocol

import torch

from .plan import Plan
from .process_group import ProcessGroup


class Batch(Protocol):
    """Rows that go through the model at once."""

    @property
    def tokens(self) -> int:
        """The number of tokens, without padding."""
        ...


class Objective(Protocol):
    """The rows of a run and their loss."""

    plan: Plan

    def step(self, step: int, rank: int) -> tuple[list[Any], int]:
        """Returns one process's batches in a step (from 0), and the number of targets across all processes."""
        ...

    def loss(self, model: Any, batch: Any) -> torch.Tensor:
        """Returns the sum of the losses of a batch's targets."""
        ...

    def validate(self, model: Any, group: ProcessGroup) -> float | None:
        """Returns the mean loss over the held-out rows; None if there are none. The model is in evaluation
        mode, without gradients.
        """
        ...

    def measures(self, loss: float) -> dict[str, float]:
        """Returns further metrics derived from this loss; their names begin with `eval_`."""
        ...
