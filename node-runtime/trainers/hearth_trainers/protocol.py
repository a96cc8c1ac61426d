"""JSON lines on standard output: the only way a trainer speaks."""

from __future__ import annotations

import os
import sys
from datetime import datetime, timezone
from typing import Any

import orjson


def emit(event: str, **fields: Any) -> None:
    """Writes one line. Values that are not finite become null. Of several processes only the first speaks."""
    if os.environ.get("RANK", "0") != "0":
        return
    now = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    line = orjson.dumps(
        {"event": event, "timestamp": now, **fields}, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
    )
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def log(message: str) -> None:
    """Says something worth reading."""
    emit("log", level="info", message=message)


def warn(message: str) -> None:
    """Says something the owner of the run may want to change."""
    emit("log", level="warning", message=message)
