"""The generations of an engine."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .generation import Generation, Guided
from .lanes import allocated_columns
from .sampling import Sampler

if TYPE_CHECKING:
    from transformers import DynamicCache


@dataclass(eq=False)
class Row:
    """A generation in the engine."""

    generation: Generation
    done: Future[Any]
    # None if only the prompt is computed.
    on_token: Callable[[int], bool] | None
    guide: Guided | None
    sampler: Sampler
    budget: int
    # The prompt and the tokens chosen so far.
    tokens: list[int]
    # The number of tokens in the cache.
    computed: int = 0
    # The cache until the row joins a lane.
    cache: DynamicCache | None = None
    # True after a failed pass: it may have been this row's fault, so no other row shares the next one.
    is_alone: bool = False

    @property
    def next(self) -> int:
        """The next token to compute."""
        return self.tokens[-1]

    @property
    def remaining(self) -> int:
        """The number of tokens that are not in the cache yet."""
        return len(self.tokens) - self.computed

    @property
    def cells(self) -> int:
        """The number of tokens for the cache of a new row, and for its place in a lane afterwards."""
        return len(self.tokens) + allocated_columns(len(self.tokens))

    def restart(self) -> None:
        """Drops the cache; it can be computed again from the tokens."""
        self.cache, self.computed = None, 0
