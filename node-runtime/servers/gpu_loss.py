"""Ends a model server that has lost its GPU. Its process can't serve any further requests, but a new process
can.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NoReturn

sys.path.append(str(Path(__file__).parent.parent / "trainers"))

from hearth_trainers.lost_gpu import lost_gpu

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]

# The exit status of a server that cannot use the GPU that it was placed on (README.md).
NO_GPU_STATUS = 69
# The time allowed to send the responses to requests that failed when the GPU was lost.
ANSWER_S = 0.2

_is_lost = False


def is_placed_on_gpu() -> bool:
    """Returns whether the node has placed this server on a GPU."""
    return os.environ.get("HEARTH_DEVICE") == "cuda"


def refuse_gpu(why: str) -> NoReturn:
    """Reports the GPU failure to the node in a printed line, and exits."""
    _print_line(why)
    sys.exit(NO_GPU_STATUS)


def note_failure(error: BaseException) -> None:
    """Prints an unexpected error on one line, and checks whether the GPU was lost."""
    global _is_lost
    print(f"{type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
    if not _is_lost and is_placed_on_gpu() and (why := lost_gpu()):
        _is_lost = True
        _print_line(why)


def end_if_gpu_is_lost(error: BaseException) -> None:
    """Ends a server whose load failed with `error`, if it has lost its GPU."""
    if is_placed_on_gpu() and (why := lost_gpu()):
        refuse_gpu(f"{why} (after {type(error).__name__})")


def until_gpu_is_lost(app: App) -> App:
    """Wraps an application, so that the process ends after the response to a request that lost the GPU."""

    async def answer(scope: dict[str, Any], receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except Exception as error:
            note_failure(error)
            raise
        finally:
            if _is_lost:
                # A normal exit would wait for threads and could hang in the driver.
                asyncio.get_running_loop().call_later(ANSWER_S, os._exit, NO_GPU_STATUS)

    return answer


def _print_line(why: str) -> None:
    print(f"it was placed on a GPU that it cannot use: {why}", file=sys.stderr, flush=True)
