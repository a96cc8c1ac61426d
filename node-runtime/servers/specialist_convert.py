"""Converts a model's safetensors to ONNX; see README.md. PyTorch's results for a sample are stored next to
the ONNX file, for specialist_check.py.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import torch
from torch.onnx._internal.torchscript_exporter import onnx_proto_utils

from asgi import refuse_weights
from light_torch import without_compiler

with without_compiler():
    from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

import numpy as np

from specialist.layout import BadModel, Layout, read_layout

# The exporter looks for onnxscript functions with a package that the environment lacks; none of these models
# has any.
onnx_proto_utils._add_onnxscript_fn = lambda graph, _: graph

OPSET = 17
LENGTHS = (3, 17, 40)
SEED = 16
# The exporter traces a shape other than the sample's, so that the check finds sizes that were exported as
# constants.
TRACED_TEXTS, TRACED_TOKENS = 2, 11


class _Numbers(torch.nn.Module):
    """A model that returns only the output that its tasks need."""

    def __init__(self, model: torch.nn.Module, output: str) -> None:
        super().__init__()
        self._model = model
        self._output = output

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor | None = None
    ) -> torch.Tensor:
        types = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        return getattr(self._model(input_ids=input_ids, attention_mask=attention_mask, **types), self._output)


@torch.inference_mode()
def convert(layout: Layout, out: Path) -> None:
    """Writes the ONNX file, the sample, and the tokenizer if the model has none that the server can read."""
    kind = AutoModelForSequenceClassification if layout.has_head else AutoModel
    # Only this attention implementation can be exported without onnxscript.
    settings = {"attn_implementation": "eager", "dtype": torch.float32, "use_safetensors": True}
    model = kind.from_pretrained(layout.folder, trust_remote_code=False, local_files_only=True, **settings).eval()
    _progress(40)
    name = "logits" if layout.has_head else "last_hidden_state"
    numbers = _Numbers(model, name)
    inputs = _sample(layout)
    expected = numbers(*inputs.values()).numpy()
    if not np.isfinite(expected).all():
        refuse_weights("it computes numbers that are not finite")
    np.savez(
        out / "sample.npz",
        expected=expected,
        **{key: value.numpy() for key, value in inputs.items()},
    )
    _progress(50)
    axes = {key: {0: "texts", 1: "tokens"} for key in inputs}
    axes[name] = {0: "texts"} if layout.has_head else {0: "texts", 1: "tokens"}
    with warnings.catch_warnings():
        # The exporter warns about every size that it treats as a constant, even where that is right.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            numbers,
            tuple(value[:TRACED_TEXTS, :TRACED_TOKENS] for value in inputs.values()),
            str(out / "model.onnx"),
            input_names=list(inputs),
            output_names=[name],
            dynamic_axes=axes,
            opset_version=OPSET,
            dynamo=False,
        )
    _progress(90)
    if not (layout.folder / "tokenizer.json").is_file():
        tokenizer = AutoTokenizer.from_pretrained(layout.folder, trust_remote_code=False, local_files_only=True)
        tokenizer.backend_tokenizer.save(str(out / "tokenizer.json"))


def _sample(layout: Layout) -> dict[str, torch.Tensor]:
    """Returns texts of several lengths, made of random tokens."""
    generator = torch.Generator().manual_seed(SEED)
    lengths = [min(length, layout.max_tokens) for length in LENGTHS]
    shape = (len(lengths), max(lengths))
    padding = int(layout.config.get("pad_token_id") or 0)
    ids = torch.randint(padding + 1, int(layout.config["vocab_size"]), shape, generator=generator)
    mask = torch.zeros(shape, dtype=torch.long)
    for row, length in enumerate(lengths):
        mask[row, :length] = 1
    inputs = {"input_ids": torch.where(mask == 1, ids, padding), "attention_mask": mask}
    if int(layout.config.get("type_vocab_size") or 0) > 1:
        inputs["token_type_ids"] = (torch.arange(shape[1]) > shape[1] // 2).long().expand(shape) * mask
    return inputs


def _progress(percent: int) -> None:
    print(json.dumps({"event": "progress", "percent": percent}), flush=True)


def main() -> None:
    """Converts one model."""
    parser = argparse.ArgumentParser(description="Converts a model's safetensors to ONNX.")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    _progress(20)
    try:
        layout = read_layout(options.model)
    except BadModel as error:
        refuse_weights(str(error))
    convert(layout, options.out)


if __name__ == "__main__":
    main()
