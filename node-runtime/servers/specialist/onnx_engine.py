"""Runs weights with onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime

from specialist.engine import ON_PROCESSOR
from specialist.layout import BadModel

KNOWN_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})
INTEGERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
HIDDEN = ("last_hidden_state", "token_embeddings")
FATAL = 4
# Errors that onnxruntime raises on any machine for a file that isn't a graph.
UNREADABLE = tuple(
    getattr(onnxruntime.capi.onnxruntime_pybind11_state, name)
    for name in ("InvalidProtobuf", "InvalidGraph", "InvalidArgument", "NotImplemented")
)


class OnnxEngine:
    """An onnxruntime session on the CPU."""

    limits = ON_PROCESSOR

    def __init__(self, path: Path, threads: int, *, has_head: bool) -> None:
        options = onnxruntime.SessionOptions()
        # The arena never releases the memory of the largest forward pass.
        options.enable_cpu_mem_arena = False
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = FATAL
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except UNREADABLE:
            raise BadModel("its ONNX file is damaged or made for another runtime") from None
        self._types = {one.name: INTEGERS.get(one.type) for one in self._session.get_inputs()}
        strange = [name for name, kind in self._types.items() if name not in KNOWN_INPUTS or kind is None]
        if strange:
            raise BadModel(f"its ONNX file requires the input {strange[0]}, which this server does not provide")
        outputs = {one.name: len(one.shape or ()) for one in self._session.get_outputs()}
        self._output = _output(outputs, has_head)

    def run(self, ids: np.ndarray, mask: np.ndarray, types: np.ndarray) -> np.ndarray:
        """See `Engine`."""
        all_inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
        feeds = {name: all_inputs[name].astype(kind, copy=False) for name, kind in self._types.items()}
        (found,) = self._session.run([self._output], feeds)
        return np.asarray(found, dtype=np.float32)


def _output(outputs: dict[str, int], has_head: bool) -> str:
    """Returns the name of the output to use, chosen by names and ranks."""
    if has_head:
        found = [name for name, rank in outputs.items() if name == "logits" or rank == 2]
    else:
        found = [name for name in HIDDEN if name in outputs] or [name for name, rank in outputs.items() if rank == 3]
    if not found:
        raise BadModel(f"its ONNX file does not output {'logits' if has_head else 'vectors of tokens'}")
    return found[0]
