"""Gathers the texts of all requests into forward passes of a bounded size."""

from __future__ import annotations

import asyncio
import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

from json_requests import Busy
from specialist.engine import ForwardLimits
from specialist.texts import Tokens

# The maximum number of queued tokens, four times the largest request. A request that finds an empty queue is
# always accepted.
CAPACITY = 4 << 20

Forward = Callable[[Sequence[Tokens]], Sequence[Any]]


class _Request:
    def __init__(self, texts: int) -> None:
        self.results: list[Any] = [None] * texts
        self.remaining = texts
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class _Waiting:
    __slots__ = ("index", "is_cancelled", "key", "request", "tokens", "turn")

    def __init__(self, request: _Request, index: int, tokens: Tokens, turn: int, number: int) -> None:
        self.request = request
        self.index = index
        self.tokens = tokens
        self.turn = turn
        self.key = (len(tokens), number)
        self.is_cancelled = False

    def __lt__(self, other: _Waiting) -> bool:
        return (self.turn, self.key[1]) < (other.turn, other.key[1])


def _key(waiting: _Waiting) -> tuple[int, int]:
    return waiting.key


class Batcher:
    """One queue for all requests. Each forward pass takes the text whose turn is next, and the waiting texts
    closest to it in length. Turns are ordered by how many tokens of a request have already been processed,
    so that a request with many texts never delays the first text of another request.
    """

    def __init__(self, forward: Forward, limits: ForwardLimits) -> None:
        self._forward = forward
        self._limits = limits
        self._by_length: list[_Waiting] = []
        self._by_priority: list[_Waiting] = []
        self._waiting_tokens = 0
        self._turn = 0
        self._numbers = count()
        self._thread = ThreadPoolExecutor(1, "forward")
        self._worker: asyncio.Task[None] | None = None

    async def run(self, texts: Sequence[Tokens]) -> list[Any]:
        """Returns the result of each text. If the caller is cancelled, its texts leave the queue."""
        size = sum(map(len, texts))
        if self._by_length and self._waiting_tokens + size > CAPACITY:
            raise Busy
        request = _Request(len(texts))
        turn = self._turn
        for index, tokens in enumerate(texts):
            waiting = _Waiting(request, index, tokens, turn, next(self._numbers))
            insort(self._by_length, waiting, key=_key)
            heapq.heappush(self._by_priority, waiting)
            turn += len(tokens)
        self._waiting_tokens += size
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        try:
            await request.done
        except asyncio.CancelledError:
            self._drop(request)
            raise
        return request.results

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while batch := self._gather():
                try:
                    results = await loop.run_in_executor(self._thread, self._forward, [one.tokens for one in batch])
                except Exception as error:
                    for waiting in batch:
                        self._fail(waiting.request, error)
                    continue
                for waiting, result in zip(batch, results, strict=True):
                    self._settle(waiting, result)
        finally:
            self._worker = None

    def _gather(self) -> list[_Waiting]:
        while self._by_priority and self._by_priority[0].is_cancelled:
            heapq.heappop(self._by_priority)
        if not self._by_priority:
            return []
        leader = heapq.heappop(self._by_priority)
        self._turn = max(self._turn, leader.turn)
        first = bisect_left(self._by_length, leader.key, key=_key)
        low, high = self._neighbours(first)
        batch = self._by_length[low:high]
        del self._by_length[low:high]
        for waiting in batch:
            self._remove(waiting)
        return batch

    def _neighbours(self, first: int) -> tuple[int, int]:
        """Returns the bounds of the texts that share a forward pass with the one at this index."""
        low, high = first, first + 1
        padding = 0
        while True:
            count = high - low
            longest = len(self._by_length[high - 1].tokens)
            # The added padding in tokens, the longest text of the forward pass, and the side from which a
            # text is added.
            candidates: list[tuple[int, int, int]] = []
            if low > 0:
                candidates.append((longest - len(self._by_length[low - 1].tokens), longest, -1))
            if high < len(self._by_length):
                above = len(self._by_length[high].tokens)
                candidates.append(((above - longest) * count, above, 1))
            if not candidates:
                return low, high
            more, top, side = min(candidates)
            padding += more
            if padding > self._limits.padding or top * (count + 1) > self._limits.padded:
                return low, high
            if side < 0:
                low -= 1
            else:
                high += 1

    def _settle(self, waiting: _Waiting, result: Any) -> None:
        request = waiting.request
        if request.done.done():
            return
        if isinstance(result, Exception):
            self._fail(request, result)
            return
        request.results[waiting.index] = result
        request.remaining -= 1
        if request.remaining == 0:
            request.done.set_result(None)

    def _fail(self, request: _Request, error: Exception) -> None:
        if not request.done.done():
            request.done.set_exception(error)
            self._drop(request)

    def _drop(self, request: _Request) -> None:
        for waiting in self._by_length:
            if waiting.request is request:
                self._remove(waiting)
        self._by_length = [waiting for waiting in self._by_length if not waiting.is_cancelled]

    def _remove(self, waiting: _Waiting) -> None:
        waiting.is_cancelled = True
        self._waiting_tokens -= len(waiting.tokens)
