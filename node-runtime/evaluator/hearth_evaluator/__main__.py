"""Entry point: `python -m hearth_evaluator job.json`; ../README.md describes the job."""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np

from .fitting import fit_map, read_adapter, write_adapter
from .judging import Pairs, broken_maps, judge

EXIT_UNUSABLE = 64


class Unusable(Exception):
    """Raised if the inputs can never be judged; the message is the error code."""


def main(arguments: list[str]) -> int:
    """Runs the command of the job file."""
    job = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    steps = {"anchors": _anchors, "fit": _fit, "map": _map, "judge": _judge}
    try:
        steps[job["command"]](job, Path(job["output_dir"]))
        return 0
    except Unusable as problem:
        print(json.dumps({"error": str(problem)}), flush=True)
        return EXIT_UNUSABLE
    except Exception as error:
        code = getattr(error, "code", None)
        if isinstance(code, str):
            print(json.dumps({"error": code}), flush=True)
            return EXIT_UNUSABLE
        traceback.print_exc()
        return 1


def _anchors(job: dict[str, Any], out: Path) -> None:
    # Reading datasets needs pyarrow, which the other commands do not load.
    from .anchors import draw_texts

    texts = draw_texts(
        job["dataset"], field=job["text_field"], count=job["count"], seed=job["seed"], memory_mb=job["memory_mb"]
    )
    (out / "texts.json").write_text(json.dumps(texts), encoding="utf-8")


def _fit(job: dict[str, Any], out: Path) -> None:
    pairs = _pairs(job)
    fitted, found = fit_map(
        pairs.source_fit, pairs.target_fit, method=job["method"], metric=job["metric"], seed=job["seed"]
    )
    if not (np.isfinite(fitted.weight).all() and np.isfinite(fitted.bias).all()):
        raise Unusable("vectors_unusable")
    write_adapter(out / "adapter.safetensors", fitted)
    _write(out / "fit.json", found)


def _map(job: dict[str, Any], out: Path) -> None:
    """Writes the vectors to send to the consumer."""
    pairs = _pairs(job)
    broken = list(broken_maps(pairs, job["fit"]["method"], job["permutations"], job["seed"]))
    np.save(out / "native.npy", pairs.target_test.astype("<f4"))
    np.save(out / "mapped.npy", read_adapter(Path(job["adapter"]))(pairs.source_test).astype("<f4"))
    np.save(out / "null.npy", np.concatenate([guess for guess, _ in broken]).astype("<f4"))
    _write(out / "null-rows.json", [rows.tolist() for _, rows in broken])


def _judge(job: dict[str, Any], out: Path) -> None:
    answers = json.loads(Path(job["answers"]).read_text(encoding="utf-8")) if job.get("answers") else None
    names = ("metric", "threshold", "permutations", "resamples", "seed")
    verdict = judge(
        _pairs(job), read_adapter(Path(job["adapter"])), job["fit"], answers, **{name: job[name] for name in names}
    )
    _write(out / "verdict.json", verdict)


def _pairs(job: dict[str, Any]) -> Pairs:
    source, target = (np.load(job[name], allow_pickle=False) for name in ("source", "target"))
    if source.ndim != 2 or target.ndim != 2 or len(source) != len(target) or len(source) <= job["fit_count"]:
        raise Unusable("vectors_unusable")
    if not (np.isfinite(source).all() and np.isfinite(target).all()):
        raise Unusable("vectors_unusable")
    return Pairs(source, target, job["fit_count"])


def _write(path: Path, body: Any) -> None:
    path.write_text(json.dumps(body, allow_nan=False), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
