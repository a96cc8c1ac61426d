"""The sampling options of a request, and the error for a request that cannot be served."""

from __future__ import annotations

from dataclasses import dataclass


class Unusable(Exception):
    """The request cannot be served as it is; the message is for the caller, and `field` names the invalid
    part.
    """

    def __init__(self, text: str, field: str | None = None) -> None:
        super().__init__(text)
        self.field = field


@dataclass
class Sampling:
    """A request's sampling options."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None
