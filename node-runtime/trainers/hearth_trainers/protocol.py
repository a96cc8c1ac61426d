"""The trainer protocol: JSON lines on standard output."""

from __future__ import annotations

import os
import sys
from datetime import datetime, timezone
from typing import Any

import orjson


def emit(event: str, **fields: Any) -> None:
    """Writes one line. Values that are not finite become null. Of several
    processes only the first writes."""
    if os.environ.get("RANK", "0") != "0":
        return
    now = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    line = orjson.dumps(
        {"event": event, "timestamp": now, **fields}, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
    )
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def log(message: str) -> None:
    """Logs a message for the owner of the run."""
    emit("log", level="info", message=message)


def warn(message: str) -> None:
    """Logs a warning about something that the owner of the run may want to change."""
    emit("log", level="warning", message=message)
