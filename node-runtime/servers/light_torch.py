"""PyTorch and transformers without what serving never uses: compiling and spreading a model. A quarter of their time to start."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

COMPILER = "torch._dynamo"

# A server is one process. Without this transformers loads what spreads tensors over several.
torch.distributed.is_available = lambda: False


@contextmanager
def without_compiler() -> Iterator[None]:
    """
    Meanwhile the compiler is not loaded by those who only mark functions for it, as transformers does all over. Whoever asks for
    more of it, then or afterwards, gets it.
    """
    if COMPILER in sys.modules:
        yield
        return
    marks = torch._dynamo = sys.modules[COMPILER] = _Marks()
    try:
        yield
    finally:
        marks.remove()


def _mark(function: Callable[..., Any] | None = None, *_: Any, **__: Any) -> Any:
    return function or (lambda marked: marked)


class _Marks(ModuleType):
    """The compiler's decorators, which change nothing about a function that is never compiled."""

    allow_in_graph = assume_constant_result = disable = staticmethod(_mark)

    def __init__(self) -> None:
        super().__init__(COMPILER)
        # Other modules of the package can be imported as ever.
        self.__path__ = [str(Path(torch.__file__).parent / "_dynamo")]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.remove()
        return getattr(importlib.import_module(COMPILER), name)

    def remove(self) -> None:
        """Makes way for the compiler."""
        if sys.modules.get(COMPILER) is self:
            del torch._dynamo, sys.modules[COMPILER]
