"""Computes all generations of a server on one thread: each forward pass gives one token to every row of a lane.

New prompts are computed in chunks between these passes, so that a long prompt does not stop the others.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import torch

from gpu_loss import note_failure

from .generation import Cancelled, Generation, Guided, ReadPrompt
from .lane_check import can_pad
from .lanes import Lane, SoloLane
from .model import LanguageModel
from .rows import Row
from .sampling import NotFinite, Sampler, choose

# The number of prompt tokens in one pass, if nothing else is running. The caller may disconnect between two passes. A
# GPU processes thousands of tokens in the time it takes to launch their kernels.
PREFILL_CHUNK = {"cpu": 256, "cuda": 4096}
# The number of prompt tokens, possibly of several prompts, between two steps of other rows.
SHARED_CHUNK = {"cpu": 128, "cuda": 1024}
# One chunk in this many goes to the oldest prompt, the others to the one with the fewest tokens left.
OLDEST_EVERY = 4


class Engine:
    """Runs up to `max_rows` generations at once, as far as their caches fit in `cache_bytes`; others wait in order of
    arrival. A single generation may exceed that memory, up to the model's context.
    """

    def __init__(self, model: LanguageModel, max_rows: int, cache_bytes: int) -> None:
        self._model = model
        self._max_rows = max_rows
        self._capacity = cache_bytes // max(1, model.bytes_per_token)
        self._changed = threading.Condition()
        self._waiting: deque[Row] = deque()
        self._changes: deque[tuple[Callable[[], None], Future[None]]] = deque()
        # Tokens of caches that are being written to files.
        self._lent = 0
        # Rows whose prompt is being computed, the oldest first, and the lanes of the others.
        self._reading: list[Row] = []
        self._lanes: list[Lane] = []
        # All admitted rows, the oldest first.
        self._admitted: list[Row] = []
        self._turn = 0
        # True if lanes may have several rows; checked before the first row joins another.
        self._can_pad: bool | None = None if model.is_batchable else False
        threading.Thread(target=self._run, name="engine", daemon=True).start()

    @property
    def running(self) -> int:
        """The number of generations with a cache."""
        return len(self._admitted)

    @property
    def waiting(self) -> int:
        """The number of generations that wait for memory or a free row."""
        return len(self._waiting)

    def generate(
        self, generation: Generation, on_token: Callable[[int], bool], guide: Guided | None = None
    ) -> Future[None]:
        """Calls `on_token` with every token, until it returns False, the model stops, or the context is full."""
        return self._submit(generation, on_token, guide)

    def read(self, generation: Generation) -> Future[ReadPrompt]:
        """Computes a prompt for another server. Call `release` once its cache is no longer needed."""
        return self._submit(generation, None, None)

    def change(self, work: Callable[[], None]) -> Future[None]:
        """Runs work that changes the model, between two passes."""
        done: Future[None] = Future()
        with self._changed:
            self._changes.append((work, done))
            self._changed.notify()
        return done

    def release(self, prompt: ReadPrompt) -> None:
        """Makes the memory of a prompt's cache available to others."""
        with self._changed:
            self._lent -= len(prompt.tokens)
            self._changed.notify()

    def _submit(
        self, generation: Generation, on_token: Callable[[int], bool] | None, guide: Guided | None
    ) -> Future[Any]:
        model = self._model
        done: Future[Any] = Future()
        # A caller that disconnects sets `cancelled`; the future itself can't be cancelled.
        done.set_running_or_notify_cancel()
        sampler = Sampler(generation.sampling, model.defaults, model.device)
        budget = model.remaining_tokens(generation)
        with self._changed:
            self._waiting.append(Row(generation, done, on_token, guide, sampler, budget, list(generation.prompt)))
            self._changed.notify()
        return done

    @torch.inference_mode()
    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._has_work)
            try:
                self._step()
            except Exception as error:  # A defect in this class must not leave callers without a response.
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Ends all rows without any tensor operation, because the GPU may be lost."""
        with self._changed:
            rows = self._rows()
            for queue in (self._waiting, self._admitted, self._reading):
                queue.clear()
        self._lanes.clear()
        for row in rows:
            row.restart()
            if not row.done.done():
                row.done.set_exception(error)
        note_failure(error)

    def _has_work(self) -> bool:
        return bool(self._admitted or self._changes or (self._waiting and not self._is_full()))

    def _change(self) -> None:
        while self._changes:
            work, done = self._changes.popleft()
            try:
                work()
                done.set_result(None)
            except Exception as error:
                done.set_exception(error)

    def _step(self) -> None:
        self._change()
        for row in self._rows():
            if row.generation.cancelled.is_set():
                self._end(row, Cancelled())
        self._admit()
        for lane in list(self._lanes):
            self._decode(lane)
        budget = (SHARED_CHUNK if self._lanes else PREFILL_CHUNK)[self._model.device.type]
        while self._reading and budget > 0:
            budget -= self._prefill(self._next_prompt(), budget)

    def _rows(self) -> list[Row]:
        with self._changed:
            return [*self._admitted, *self._waiting]

    # Memory

    def _used(self) -> int:
        reading = sum(row.cells for row in self._reading)
        return self._lent + reading + sum(lane.cells for lane in self._lanes)

    def _is_full(self) -> bool:
        """Returns whether the first waiting row has to wait."""
        row = self._waiting[0]
        if not self._admitted and not self._lent:
            return False
        lane = self._lane_for(row, len(row.tokens))
        wanted = row.cells + (lane.growth(len(row.tokens)) if lane else 0)
        return len(self._admitted) >= self._max_rows or self._used() + wanted > self._capacity

    def _admit(self) -> None:
        with self._changed:
            while self._waiting and not self._is_full():
                row = self._waiting.popleft()
                self._admitted.append(row)
                self._reading.append(row)

    def _make_room(self, growth: Callable[[], int]) -> None:
        """Postpones the newest rows until the growth fits, which depends on them; the oldest row always continues."""
        while self._used() + growth() > self._capacity and len(self._admitted) > 1:
            self._postpone(self._admitted[-1])

    def _postpone(self, row: Row) -> None:
        self._dequeue(row)
        self._leave(row)
        row.restart()
        with self._changed:
            self._waiting.appendleft(row)

    def _lane_for(self, row: Row, length: int) -> Lane | None:
        if row.is_alone or self._can_pad is False:
            return None
        is_long = self._model.rope.is_long
        near = (lane for lane in self._lanes if lane.accepts(row.generation.adapter, length))
        return next((lane for lane in near if is_long(lane.rows[0].computed) == is_long(length)), None)

    # Tokens

    def _decode(self, lane: Lane) -> None:
        for row in reversed(lane.rows):
            if self._model.rope.must_reread(row.computed):
                self._postpone(row)
        self._make_room(lane.step_growth)
        if not lane.rows:
            return
        rows = list(lane.rows)
        try:
            logits = self._model.forward(lane.inputs(self._model.device), lane.cache, lane.adapter)
            lane.advance()
            self._choose(rows, logits)
        except Exception as error:
            self._divide(rows, error)

    def _divide(self, rows: list[Row], error: Exception) -> None:
        """After a failed pass, continues its rows one by one, so that only the one at fault ends."""
        rows = [row for row in rows if not row.done.done()]
        if len(rows) == 1:
            return self._end(rows[0], error)
        note_failure(error)
        for row in reversed(rows):
            row.is_alone = True
            self._postpone(row)

    def _next_prompt(self) -> Row:
        self._turn += 1
        if self._turn % OLDEST_EVERY == 0:
            return self._reading[0]
        return min(self._reading, key=lambda row: row.remaining)

    def _prefill(self, row: Row, most: int) -> int:
        """Computes up to this many tokens of a prompt; returns their number."""
        prompt, total = len(row.generation.prompt), len(row.tokens)
        size, length = self._model.rope.next_chunk(row.computed, prompt, total, most)
        try:
            is_stored = row.generation.load and not row.computed
            logits = self._load(row) if is_stored else self._compute_chunk(row, size, length)
            if not row.remaining:
                self._start(row, logits)
        except Exception as error:
            self._end(row, error)
        return size

    def _start(self, row: Row, logits: torch.Tensor) -> None:
        """Continues a row after its prompt."""
        if row.on_token:
            self._choose([row], logits)
            if not row.done.done():
                self._reading.remove(row)
                self._join(row)
        elif row.cache is not None:
            prompt = ReadPrompt(row.tokens, row.cache, logits[0])
            with self._changed:
                self._lent += len(row.tokens)
            self._end(row, None, prompt)

    def _load(self, row: Row) -> torch.Tensor:
        generation = row.generation
        load, generation.load = generation.load, None
        if load is None:
            raise RuntimeError("a stored prompt was loaded twice")
        prompt = load()
        row.cache, row.computed = prompt.cache, len(prompt.tokens)
        return prompt.logits[None]

    def _compute_chunk(self, row: Row, size: int, length: int) -> torch.Tensor:
        if row.cache is None:
            row.cache = self._model.new_cache()
        tokens = row.tokens[row.computed : row.computed + size]
        inputs = {"input_ids": torch.tensor([tokens], device=self._model.device)}
        logits = self._model.forward(inputs, row.cache, row.generation.adapter, length)
        row.computed += len(tokens)
        return logits

    def _join(self, row: Row) -> None:
        lane = self._lane_for(row, row.computed)
        if lane and self._can_pad is None:
            self._can_pad = can_pad(self._model)
            lane = lane if self._can_pad else None
        is_solo = row.is_alone or not self._model.is_batchable
        fresh = (SoloLane if is_solo else Lane)(row.generation.adapter)
        # Postponing rows may remove the lane.
        self._make_room(lambda: row.computed + (lane if lane in self._lanes else fresh).growth(row.computed))
        if row.cache is None:
            return  # This row was postponed.
        if lane is None or lane not in self._lanes:
            lane = fresh
            self._lanes.append(lane)
        try:
            lane.join(row, row.cache)
        except Exception:
            self._drop(lane, list(lane.rows))
            raise
        row.cache = None

    def _choose(self, rows: list[Row], logits: torch.Tensor) -> None:
        """Gives each row its next token, and ends the rows that are complete or have failed."""
        for at, row in enumerate(rows):
            try:
                if row.guide:
                    row.guide.narrow(logits[at])
            except Exception as error:
                self._end(row, error)
        for row, token in zip(rows, choose(logits, [row.sampler for row in rows]), strict=True):
            if row.done.done():
                continue
            if isinstance(token, NotFinite):
                self._end(row, token)
                continue
            try:
                is_over = self._take(row, token)
            except Exception as error:
                self._end(row, error)
                continue
            if is_over:
                self._end(row)

    def _take(self, row: Row, token: int) -> bool:
        """Records a row's token; returns whether the response is complete."""
        generation = row.generation
        generation.tokens += 1
        row.tokens.append(token)
        is_last = token in self._model.ends or (row.on_token is not None and not row.on_token(token))
        if is_last or (row.guide and not row.guide.accept(token)):
            generation.finish_reason = "stop"
            return True
        return generation.tokens >= row.budget

    def _end(self, row: Row, error: Exception | None = None, result: ReadPrompt | None = None) -> None:
        self._dequeue(row)
        # Respond before the tensor operations that free the row's place, which may fail.
        if error is None:
            row.done.set_result(result)
        elif not row.done.done():
            row.done.set_exception(error)
        self._leave(row)
        row.restart()

    def _dequeue(self, row: Row) -> None:
        with self._changed:
            for rows in (self._waiting, self._admitted, self._reading):
                if row in rows:
                    rows.remove(row)

    def _leave(self, row: Row) -> None:
        """Frees a row's place in its lane. If that fails, the other rows of the lane start again."""
        for lane in [lane for lane in self._lanes if row in lane.rows]:
            others = [other for other in lane.rows if other is not row]
            try:
                lane.leave(row)
            except Exception as error:
                note_failure(error)
                self._drop(lane, others)
                continue
            if not lane.rows:
                self._lanes.remove(lane)

    def _drop(self, lane: Lane, rows: list[Row]) -> None:
        """Removes a lane whose cache may be inconsistent, and postpones these rows of it."""
        lane.rows.clear()
        self._lanes.remove(lane)
        for row in reversed(rows):
            self._postpone(row)
