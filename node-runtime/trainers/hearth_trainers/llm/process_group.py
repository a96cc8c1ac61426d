"""The processes that share a run: one per accelerator, or a single one."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


class ProcessGroup:
    """The torch.distributed process group, created with accelerate. A single process never imports
    accelerate.
    """

    def __init__(self, device: torch.device) -> None:
        self.rank = int(os.environ.get("RANK", "0"))
        self.world_size = int(os.environ.get("WORLD_SIZE", "1"))
        self._device = device
        self._accelerator: Any = None
        if self.world_size > 1:
            from accelerate import Accelerator

            self._accelerator = Accelerator(cpu=device.type == "cpu")

    @property
    def is_main_process(self) -> bool:
        """True for the process that reports, saves and writes the result."""
        return self.rank == 0

    def prepare_model(self, model: Any) -> Any:
        """Returns the model for training, wrapped so that gradients are
        averaged over all processes."""
        return self._accelerator.prepare_model(model, device_placement=False) if self._accelerator else model

    def no_sync(self, model: Any) -> AbstractContextManager[Any]:
        """Skips the gradient exchange for all but the last micro-batch of a step."""
        return self._accelerator.no_sync(model) if self._accelerator else nullcontext()

    def reduce_sum(self, *values: float) -> list[float]:
        """Sums each value over all processes."""
        if not self._accelerator:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64 if self._device.type == "cpu" else torch.float32)
        return self._accelerator.reduce(tensor.to(self._device), reduction="sum").tolist()

    def gather_object(self, value: Any) -> list[Any]:
        """Returns one entry per process, by rank."""
        if not self._accelerator:
            return [value]
        from accelerate.utils import gather_object

        return gather_object([value])

    def wait_for_everyone(self) -> None:
        """Waits until all processes have arrived."""
        if self._accelerator:
            self._accelerator.wait_for_everyone()

    def shutdown(self) -> None:
        """Waits for all processes and leaves the group; after this each works alone."""
        if self._accelerator:
            self.wait_for_everyone()
            self._accelerator.end_training()
            self._accelerator = None
