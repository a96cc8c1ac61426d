"""Compares onnxruntime's results with PyTorch's for the sample of specialist_convert.py, and chooses the file
that the server reads; see README.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np

from specialist.layout import read_layout
from specialist.onnx_engine import OnnxEngine
from specialist.weights import find_onnx

# The maximum difference, as a share of the sample's largest number. Random models of all architectures differ
# by 1e-6 to 1e-5; float16 files differ by about 1e-3.
TOLERANCE = 2e-3


def difference(path: Path, sample: dict[str, np.ndarray], *, has_head: bool, threads: int) -> float:
    """Returns the largest difference between an ONNX file's results and the sample, as a share of the
    sample's largest number.
    """
    ids, mask, expected = sample["input_ids"], sample["attention_mask"], sample["expected"]
    types = sample.get("token_type_ids", np.zeros_like(ids))
    found = OnnxEngine(path, threads, has_head=has_head).run(ids, mask, types)
    if found.shape != expected.shape:
        return float("inf")
    apart = np.abs(found - expected)
    if not has_head:
        apart = apart[mask == 1]
    largest = float(apart.max())
    return largest / max(1.0, float(np.abs(expected).max())) if np.isfinite(largest) else float("inf")


def main() -> None:
    """Exits with 0 if a file agrees; the model's own file is preferred over the converted one."""
    parser = argparse.ArgumentParser(description="Checks a converted model.")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    has_head = read_layout(options.model).has_head
    with np.load(options.out / "sample.npz") as arrays:
        sample = dict(arrays)

    def judge(path: Path, name: str) -> bool:
        try:
            apart = difference(path, sample, has_head=has_head, threads=options.threads)
        # A file for another model may reject the sample, and onnxruntime's errors have no common class.
        except Exception as error:
            print(json.dumps({"event": "compared", "file": name, "problem": str(error)}), flush=True)
            return False
        passed = apart <= TOLERANCE
        print(json.dumps({"event": "compared", "file": name, "difference": apart, "passed": passed}), flush=True)
        return passed

    own = find_onnx([options.model])
    converted = options.out / "model.onnx"
    if own is not None and judge(own, "own"):
        for path in options.out.glob("model.onnx*"):
            path.unlink()
    elif not judge(converted, "converted"):
        sys.exit("The converted model computes different numbers than the original.")
    (options.out / "sample.npz").unlink()


if __name__ == "__main__":
    main()
