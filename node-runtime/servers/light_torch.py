"""Imports PyTorch and transformers without the parts that serving never uses: the compiler and
distributed models. That saves three quarters of the import time."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import torch

COMPILER = "torch._dynamo"
BITSANDBYTES = "bitsandbytes"

# A server is one process. With this setting, transformers does not import its code for tensors that span
# several devices.
torch.distributed.is_available = lambda: False


@contextmanager
def without_compiler() -> Iterator[None]:
    """In this context, modules that only use the compiler's decorators don't import it; transformers has many
    such modules. Any other access, then or later, imports it.
    """
    if COMPILER in sys.modules:
        yield
        return
    marks = torch._dynamo = sys.modules[COMPILER] = _Marks()
    try:
        yield
    finally:
        marks.remove()


@contextmanager
def without_quantization() -> Iterator[None]:
    """In this context, libraries behave as if bitsandbytes were not installed. It is for GPUs and imports the
    compiler.
    """
    if BITSANDBYTES in sys.modules:
        yield
        return
    sys.modules[BITSANDBYTES] = cast(ModuleType, None)
    try:
        yield
    finally:
        del sys.modules[BITSANDBYTES]


def _mark(function: Callable[..., Any] | None = None, *_: Any, **__: Any) -> Any:
    return function or (lambda marked: marked)


class _Marks(ModuleType):
    """No-op versions of the compiler's decorators: a function that is never compiled does not need them."""

    allow_in_graph = assume_constant_result = disable = staticmethod(_mark)
    # Libraries check for compiled modules with isinstance; no module is an instance of this class.
    eval_frame = SimpleNamespace(OptimizedModule=type(None))

    def __init__(self) -> None:
        super().__init__(COMPILER)
        # With this path, the package's other modules can still be imported.
        self.__path__ = [str(Path(str(torch.__file__)).parent / "_dynamo")]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.remove()
        return getattr(importlib.import_module(COMPILER), name)

    def remove(self) -> None:
        """Makes the real compiler available again."""
        if sys.modules.get(COMPILER) is self:
            del torch._dynamo, sys.modules[COMPILER]
