"""The processes that share a run: usually one, and one for each accelerator on nodes with several."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


class Crew:
    """This process within its group. A single process exchanges nothing and does not
    import the library for it."""

    def __init__(self, device: torch.device) -> None:
        self.rank = int(os.environ.get("RANK", "0"))
        self.size = int(os.environ.get("WORLD_SIZE", "1"))
        self._device = device
        self._accelerator: Any = None
        if self.size > 1:
            from accelerate import Accelerator

            self._accelerator = Accelerator(cpu=device.type == "cpu")

    @property
    def leads(self) -> bool:
        """True for the process that reports, saves and writes the result."""
        return self.rank == 0

    def share(self, model: Any) -> Any:
        """Returns the model for training, wrapped so that gradients are
        averaged over all processes."""
        return self._accelerator.prepare_model(model, device_placement=False) if self._accelerator else model

    def no_exchange(self, model: Any) -> AbstractContextManager[Any]:
        """Skips the gradient exchange, for all but the last micro-batch of a step."""
        return self._accelerator.no_sync(model) if self._accelerator else nullcontext()

    def sums(self, *values: float) -> list[float]:
        """Sums each value over all processes."""
        if not self._accelerator:
            return list(values)
        mine = torch.tensor(values, dtype=torch.float64 if self._device.type == "cpu" else torch.float32)
        return self._accelerator.reduce(mine.to(self._device), reduction="sum").tolist()

    def gather(self, value: Any) -> list[Any]:
        """Returns one entry per process, by rank."""
        if not self._accelerator:
            return [value]
        from accelerate.utils import gather_object

        return gather_object([value])

    def wait(self) -> None:
        """Waits until all processes have arrived."""
        if self._accelerator:
            self._accelerator.wait_for_everyone()

    def part(self) -> None:
        """Ends the exchange, for all processes at the same moment; from here on each works alone."""
        if self._accelerator:
            self.wait()
            self._accelerator.end_training()
            self._accelerator = None
