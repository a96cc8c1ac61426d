"""One generation: its request, its progress, and whether its caller is still waiting."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field, replace
from typing import Any

import torch


class Cancelled(Exception):
    """The caller has disconnected."""


class UnusableOutput(Exception):
    """The model's output is unusable; the message is for the caller."""


@dataclass
class Job:
    """One generation. It reports each step to a callback, with the number of steps done and their total."""

    fields: Mapping[str, Any]
    seed: int
    on_step: Callable[[int, int], None]
    cancelled: threading.Event = field(default_factory=threading.Event)
    steps: int = 0

    def step(self, done: int, total: int) -> None:
        """Reports a step; raises once the caller has disconnected."""
        self.check()
        self.steps = done
        self.on_step(done, max(total, done))

    def parts(self, count: int) -> Iterator[Job]:
        """Yields a job for each of `count` outputs that are generated one after the other, with consecutive seeds."""
        for index in range(count):

            def on_step(done: int, total: int, before: int = index) -> None:
                self.step(before * total + done, count * total)

            yield replace(self, seed=self.seed + index, on_step=on_step, steps=0)

    def check(self) -> None:
        """Raises once the caller has disconnected."""
        if self.cancelled.is_set():
            raise Cancelled

    def generator(self) -> torch.Generator:
        """Returns the source of the noise. It is on the CPU, so that it yields the same noise for every
        device.
        """
        return torch.Generator("cpu").manual_seed(self.seed)

    def progress_bar(self, iterable: Iterable[Any] | None = None, total: int | None = None) -> Bar:
        """Replaces a pipeline's progress bar, the only hook that every pipeline calls at each step."""
        return Bar(self, iterable, total)


class Bar:
    """Counts the steps of a pipeline."""

    def __init__(self, job: Job, iterable: Iterable[Any] | None, total: int | None) -> None:
        self._job = job
        self._items = iterable
        self._total = total if total is not None else len(iterable) if isinstance(iterable, Sized) else 0
        self._done = 0

    def __iter__(self) -> Iterator[Any]:
        for item in () if self._items is None else self._items:
            self._job.check()
            yield item
            self.update()

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, count: int = 1) -> None:
        """Counts steps, as a tqdm bar does."""
        self._done += count
        self._job.step(self._done, self._total)

    def set_description(self, *_: Any, **__: Any) -> None:
        """Does nothing: the bar isn't shown."""

    set_postfix = set_description
