"""Files in requests are `data:` URLs, because model servers have no network access: the node fetches remote
files.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from answers import InputProblem

MAX_BYTES = 50 << 20
# The maximum size of a request body: the largest file in base64, and room for the other fields.
MAX_BODY = 72 << 20
DATA_URL = re.compile(r"data:(?:[\w.+-]+/[\w.+-]+)?(?:;[\w.+-]+=[\w.+-]+)*;base64,", re.ASCII)


def data_of(fields: Mapping[str, Any], name: str) -> bytes:
    """Returns the bytes of a field with a `data:` URL."""
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise InputProblem(f"{name} must be the URL of a file", f"/{name}")
    head = DATA_URL.match(value)
    if not head:
        raise InputProblem(f"{name} must be a data: URL in base64 here; the node fetches others", f"/{name}")
    if len(value) > MAX_BYTES * 4 // 3 + len(head[0]) + 4:
        raise InputProblem(f"{name} is larger than {MAX_BYTES >> 20} MB", f"/{name}")
    try:
        return base64.b64decode(value[head.end() :], validate=True)
    except binascii.Error:
        raise InputProblem(f"{name} is not valid base64", f"/{name}") from None
