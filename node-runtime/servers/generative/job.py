"""One generation: what was asked, how far it is, and whether its caller still waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field, replace
from typing import Any

import torch


class Cancelled(Exception):
    """The caller has left."""


class UnusableOutput(Exception):
    """The model made nothing that can be used; the text is for the caller."""


@dataclass
class Job:
    """One generation. `tell` is called with the number of steps done and their total."""

    fields: Mapping[str, Any]
    seed: int
    tell: Callable[[int, int], None]
    cancelled: threading.Event = field(default_factory=threading.Event)
    steps: int = 0

    def step(self, done: int, total: int) -> None:
        """Reports a step; raises once the caller has left."""
        self.check()
        self.steps = done
        self.tell(done, max(total, done))

    def parts(self, count: int) -> Iterator[Job]:
        """Gives a job for each of several things that are made one after the other, with seeds that follow each
        other."""
        for index in range(count):

            def tell(done: int, total: int, before: int = index) -> None:
                self.step(before * total + done, count * total)

            yield replace(self, seed=self.seed + index, tell=tell, steps=0)

    def check(self) -> None:
        """Raises once the caller has left."""
        if self.cancelled.is_set():
            raise Cancelled

    def generator(self) -> torch.Generator:
        """Gives the source of the noise; one on the processor gives the same noise on every device."""
        return torch.Generator("cpu").manual_seed(self.seed)

    def progress_bar(self, iterable: Iterable[Any] | None = None, total: int | None = None) -> Bar:
        """Stands for the progress bar of a pipeline, the one thing that every pipeline moves at each step."""
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
        """Counts steps, as a bar of tqdm does."""
        self._done += count
        self._job.step(self._done, self._total)

    def set_description(self, *_: Any, **__: Any) -> None:
        """Does nothing: nobody sees the bar."""

    set_postfix = set_description
