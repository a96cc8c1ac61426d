"""Reads small tables as the tabular trainers do: `python table_probe.py` reads JSON requests from stdin, such
as `{"text": CSV, "target": NUMERIC_COLUMN}`, and prints one JSON response for each: the learned columns,
the target sorted by time (with `filled`, without gaps), and the warnings. `time` names the time column,
`named` the column that a request forecasts, and `more` contains additional files of the dataset. With
`label`, the probe reads that column as classes and the others as features; with `hyperparameters`, it
reads texts and their classes.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hearth_trainers.datasets.tables import read_table
from hearth_trainers.encoders.texts import read_labelled_texts
from hearth_trainers.errors import JobError
from hearth_trainers.job import Job
from hearth_trainers.protocol import _data_warnings, data_warnings
from hearth_trainers.run import Run
from hearth_trainers.times.order import rows_in_time


def default_series(table: Any, request: dict[str, Any]) -> str:
    from hearth_trainers.tabular.series_column import choose_series

    return choose_series(table, request.get("named", ""), request.get("time", ""))


def classes(job: Job, label: str) -> dict[str, Any]:
    # These modules import LightGBM, which takes longer than everything else here.
    from hearth_trainers.tabular.fitting import fit_features
    from hearth_trainers.tabular.preparation import rows_with, with_written_classes

    codes: dict[str, Any] = {}
    loop: Any = SimpleNamespace(require=lambda _: None)
    run: Any = Run(job, read_table(job, codes), loop, codes)
    table = rows_with(with_written_classes(run, label), label)
    fit_features(table, label, [])
    found = sorted({str(one) for one in table.column(label).to_pylist()})
    return {"classes": found, "warnings": [one["message"] for one in data_warnings()]}


def read(request: dict[str, Any]) -> Any:
    _data_warnings.clear()
    response: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place, contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
        here = Path(place)
        files = tuple(here / f"data-{number}" for number in range(1 + len(request.get("more", []))))
        for file, text in zip(files, [request["text"], *request.get("more", [])], strict=True):
            file.write_text(text, encoding="utf-8", newline="")
        try:
            settings = request.get("hyperparameters", {})
            job = Job("t", "t", request.get("format", "csv"), files, settings, here, here, None, 1, 5)
            if settings:
                texts = read_labelled_texts(job, 0.2, 1)
                return {
                    "classes": texts.labels.classes,
                    "rows": texts.rows,
                    "warnings": [one["message"] for one in data_warnings()],
                }
            if "label" in request:
                return classes(job, request["label"])
            table = read_table(job)
            response["columns"] = {
                name: [str(one) for one in table.column(name).to_pylist()] for name in table.column_names
            }
            if "target" in request:
                target = request["target"] or default_series(table, request)
                rows, _ = rows_in_time(table, target, request.get("time", ""))
                response["target"] = target
                response["series"] = table.column(target).take(rows).to_pylist()
                if request.get("filled"):
                    from hearth_trainers.forecast import _series

                    response["series"] = _series(table, request["target"], rows).tolist()
        except JobError as error:
            response["error"] = [error.code, str(error)]
    return {**response, "warnings": [one["message"] for one in data_warnings()]}


print(json.dumps([read(request) for request in json.load(sys.stdin)]))
