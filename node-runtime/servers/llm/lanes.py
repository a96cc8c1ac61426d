"""Rows that a model computes together: one forward pass gives the next token of each.

The rows of a lane end at the same column of its cache, as in a left-padded batch. A shorter row begins at a later
column, and a mask hides the columns before it. All architectures whose caches hold keys and values work like this,
without code for any of them (docs/decisions/0014-chat-servers.md).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from light_torch import without_compiler

with without_compiler():
    from transformers import DynamicCache
    from transformers.cache_utils import Cache, DynamicLayer

# A lane's rows may differ in length by this factor, because a shorter row is computed as if it were as long as the
# longest. Rows up to `SHORT` tokens are always close enough: weights cost more than their padding.
MAX_RATIO = 4
SHORT = 512
# The number of columns allocated ahead of the next token, and their share of the columns in use.
MIN_SPARE, SPARE = 64, 0.25


class LaneRow(Protocol):
    """The part of a row that its lane needs."""

    # The number of tokens in the cache.
    computed: int

    @property
    def next(self) -> int:
        """The next token to compute."""
        ...


def allocated_columns(used: int) -> int:
    """Returns the number of columns that a lane allocates for this many in use."""
    return used + max(MIN_SPARE, int(SPARE * used))


@dataclass
class Extent:
    """The rows and columns of a lane's cache that are in use."""

    rows: int = 0
    begin: int = 0
    end: int = 0


class LaneLayer(DynamicLayer):
    """One layer's keys and values of all rows, `[rows, heads, columns, width]`. A new token is written in place.

    Unused positions are zero: a mask multiplies them by zero, which would not hide a row's infinite numbers.
    """

    def __init__(self, extent: Extent) -> None:
        super().__init__()
        self._extent = extent

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Writes the keys and values of the next column; returns those of all columns in use."""
        rows, begin, end = self._extent.rows, self._extent.begin, self._extent.end
        self.keys[:rows, :, end] = key_states[:, :, 0]
        self.values[:rows, :, end] = value_states[:, :, 0]
        return self.keys[:rows, :, begin : end + 1], self.values[:rows, :, begin : end + 1]

    def get_seq_length(self) -> int:
        """Returns the number of columns in use."""
        return self._extent.end - self._extent.begin

    def resize(self, like: DynamicLayer, rows: int, columns: int, used: int) -> None:
        """Moves the contents to a new allocation, in which the columns in use end at `used`."""
        keys = self._moved(self.keys, like.keys, rows, columns, used)
        # Nothing has changed if there is no memory for both.
        self.values = self._moved(self.values, like.values, rows, columns, used)
        self.keys = keys
        self.is_initialized = True

    def write(self, row: int, source: DynamicLayer) -> None:
        """Copies the cache of one sequence to a row that has been cleared."""
        end, length = self._extent.end, source.keys.shape[2]
        self.keys[row, :, end - length : end] = source.keys[0]
        self.values[row, :, end - length : end] = source.values[0]

    def remove(self, row: int, last: int) -> None:
        """Moves the last row to the place of a removed one, and clears the place that becomes free."""
        for states in (self.keys, self.values):
            if row != last:
                states[row, :, : self._extent.end] = states[last, :, : self._extent.end]
            states[last, :, : self._extent.end + 1] = 0

    def _moved(
        self, states: torch.Tensor | None, like: torch.Tensor, rows: int, columns: int, used: int
    ) -> torch.Tensor:
        heads, width = like.shape[1], like.shape[3]
        moved = torch.zeros(rows, heads, columns, width, dtype=like.dtype, device=like.device)
        extent = self._extent
        if states is not None and extent.rows:
            length = extent.end - extent.begin
            moved[: extent.rows, :, used - length : used] = states[: extent.rows, :, extent.begin : extent.end]
        return moved


class Lane:
    """Rows that one forward pass computes, with the same adapter."""

    def __init__(self, adapter: str | None) -> None:
        self.adapter = adapter
        self.rows: list[Any] = []
        self.cache = Cache(layers=[])
        self._extent = Extent()
        # The allocated rows and columns.
        self._size = (0, 0)

    @property
    def cells(self) -> int:
        """The number of tokens for which memory is allocated."""
        return self._size[0] * self._size[1]

    def accepts(self, adapter: str | None, length: int) -> bool:
        """Returns whether a row with this many tokens is close enough to the others."""
        lengths = [length, *(row.computed for row in self.rows)]
        return adapter == self.adapter and max(lengths) <= MAX_RATIO * max(min(lengths), SHORT)

    def growth(self, length: int) -> int:
        """Returns by how much `cells` changes when a row with this many tokens joins."""
        return self._cells_after(length, joining=1) - self.cells

    def step_growth(self) -> int:
        """Returns by how much `cells` changes in the next step."""
        return self._cells_after(0, joining=0) - self.cells

    def join(self, row: LaneRow, cache: DynamicCache) -> None:
        """Adds a row with the cache of its tokens so far."""
        length, extent = row.computed, self._extent
        if self._must_resize(length, joining=1):
            self._resize(cache, length, joining=1)
        extent.rows += 1
        extent.begin = min(extent.begin, extent.end - length) if self.rows else extent.end - length
        for layer, source in zip(self.cache.layers, cache.layers, strict=True):
            layer.write(extent.rows - 1, source)
        self.rows.append(row)

    def leave(self, row: LaneRow) -> None:
        """Removes a row. Drop the lane if this raises an error: its cache may be inconsistent."""
        at, last = self.rows.index(row), len(self.rows) - 1
        for layer in self.cache.layers:
            layer.remove(at, last)
        self.rows[at] = self.rows[last]
        self.rows.pop()
        self._extent.rows = last
        if self.rows:
            self._extent.begin = self._extent.end - max(one.computed for one in self.rows)
            if 2 * last <= self._size[0]:
                # Without memory for a smaller copy, the lane stays large.
                with suppress(torch.OutOfMemoryError):
                    self._resize(self.cache, 0, joining=0)

    def inputs(self, device: torch.device) -> dict[str, torch.Tensor]:
        """Returns the arguments of the forward pass for the next tokens."""
        extent = self._extent
        if self._must_resize(0, joining=0):
            self._resize(self.cache, 0, joining=0)
        inputs: dict[str, torch.Tensor] = {"input_ids": torch.tensor([[row.next] for row in self.rows], device=device)}
        length = extent.end - extent.begin
        if any(row.computed < length for row in self.rows):
            lengths = torch.tensor([row.computed for row in self.rows], device=device)[:, None]
            columns = torch.arange(length + 1, device=device)
            inputs |= {"position_ids": lengths, "attention_mask": (columns >= length - lengths).long()}
        return inputs

    def advance(self) -> None:
        """Counts the column that a forward pass has written. A failed pass can be repeated."""
        self._extent.end += 1
        for row in self.rows:
            row.computed += 1

    def _must_resize(self, length: int, joining: int) -> bool:
        rows, columns = self._size
        return len(self.rows) + joining > rows or not length <= self._extent.end < columns

    def _size_after(self, length: int, joining: int) -> tuple[int, int]:
        rows, used = len(self.rows), max(length, self._extent.end - self._extent.begin)
        return rows + joining * max(1, rows // 2), allocated_columns(used)

    def _cells_after(self, length: int, joining: int) -> int:
        if not self._must_resize(length, joining):
            return self.cells
        rows, columns = self._size_after(length, joining)
        return rows * columns

    def _resize(self, source: Cache, length: int, joining: int) -> None:
        rows, columns = self._size_after(length, joining)
        extent = self._extent
        used = max(length, extent.end - extent.begin)
        if not self.cache.layers:
            self.cache.layers = [LaneLayer(extent) for _ in source.layers]
        # One layer after the other, so that only one is in memory twice.
        for at, (layer, like) in enumerate(zip(self.cache.layers, source.layers, strict=True)):
            try:
                layer.resize(like, rows, columns, used)
            except torch.OutOfMemoryError as error:
                if at == 0:
                    raise
                raise RuntimeError("there was memory for some layers of a lane only") from error
        extent.begin, extent.end = extent.begin + used - extent.end, used
        self._size = (rows, columns)


class SoloLane(Lane):
    """A single row with its own cache: for architectures whose states can't be batched, and for rows of a forward
    pass that failed.
    """

    @property
    def cells(self) -> int:
        """The number of tokens for which memory is allocated."""
        return sum(row.computed for row in self.rows)

    def accepts(self, adapter: str | None, length: int) -> bool:
        """Returns False: no other row can join."""
        return False

    def join(self, row: LaneRow, cache: DynamicCache) -> None:
        """Adds the only row."""
        self.rows.append(row)
        self.cache = cache

    def growth(self, length: int) -> int:
        """Returns by how much `cells` changes when the row joins. Its cache is not copied."""
        return 0

    def leave(self, row: LaneRow) -> None:
        """Removes the row."""
        self.rows.remove(row)

    def step_growth(self) -> int:
        """Returns by how much `cells` changes in the next step."""
        return 1

    def inputs(self, device: torch.device) -> dict[str, torch.Tensor]:
        """Returns the arguments of the forward pass for the next token."""
        return {"input_ids": torch.tensor([[row.next] for row in self.rows], device=device)}

    def advance(self) -> None:
        """Counts the token that a forward pass has added to the cache."""
        for row in self.rows:
            row.computed += 1
