"""Queries small files as the tool query_table does: `python query_probe.py` reads JSON requests from stdin, such as
`{"text": FILE, "sql": QUERY}` or with the bytes of the file as `base64`, and prints one JSON response for each: the
result, or the `error`."""

from __future__ import annotations

import base64
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[4] / "catalog" / "tools" / "query_table"))
import main


def answer(request: dict[str, str], file: Path) -> dict[str, Any]:
    file.write_bytes(base64.b64decode(request["base64"]) if "base64" in request else request["text"].encode())
    main.FILE, main.ROWS = str(file), str(file.with_name("rows"))
    try:
        return main.query({"sql": request.get("sql", "from data")})
    except main.Refused as error:
        return {"error": str(error)}


with tempfile.TemporaryDirectory() as folder:
    print(json.dumps([answer(request, Path(folder) / "data") for request in json.load(sys.stdin)]))
