"""Writes a tiny BERT as GGUF: `python specialist_gguf.py SOURCE FOLDER [--pooling mean]`. Writes `model.gguf` in
float32 to FOLDER, and the same weights for transformers to its subfolder `plain`."""

from __future__ import annotations

import argparse
import struct
from pathlib import Path

import torch
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

ALIGNMENT = 32
U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
POOLING = {"none": 0, "mean": 1, "cls": 2, "last": 3, "rank": 4}
NORMAL, CONTROL = 1, 3
LAYER = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
OTHERS = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.LayerNorm": "token_embd_norm",
}
HEAD = {"pooler.dense": "cls", "classifier": "cls.output"}


def make(options: argparse.Namespace) -> None:
    """Writes both forms of the weights."""
    source, folder = Path(options.source), Path(options.folder)
    ranks = options.pooling == "rank"
    model = (AutoModelForSequenceClassification if ranks else AutoModel).from_pretrained(source, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(source)
    with torch.no_grad():
        # llama.cpp knows only the first token type, so both texts of a pair use it.
        types = model.get_submodule("bert.embeddings" if ranks else "embeddings").token_type_embeddings.weight
        types[1] = types[0]
    model.save_pretrained(folder / "plain")
    tokenizer.save_pretrained(folder / "plain")
    names = {**OTHERS, **(HEAD if ranks else {})}
    tensors = {}
    for name, values in model.state_dict().items():
        written = _name(name.removeprefix("bert."), names)
        if written:
            tensors[written] = values.contiguous()
    (folder / "model.gguf").write_bytes(_file(_settings(model.config, tokenizer, options.pooling), tensors))


def _name(name: str, names: dict[str, str]) -> str | None:
    module, _, kind = name.rpartition(".")
    if module.startswith("encoder.layer."):
        number, _, inner = module.removeprefix("encoder.layer.").partition(".")
        return f"blk.{number}.{LAYER[inner]}.{kind}"
    return f"{names[module]}.{kind}" if module in names else None


def _settings(config, tokenizer, pooling: str) -> dict[str, tuple[int, object]]:
    tokens = [tokenizer.convert_ids_to_tokens(number) for number in range(len(tokenizer))]
    special = set(tokenizer.all_special_tokens)
    shown = [
        token if token in special else token[2:] if token.startswith("##") else f"\u2581{token}" for token in tokens
    ]
    return {
        "general.architecture": (STRING, "bert"),
        "general.name": (STRING, "tiny"),
        "bert.context_length": (U32, config.max_position_embeddings),
        "bert.embedding_length": (U32, config.hidden_size),
        "bert.feed_forward_length": (U32, config.intermediate_size),
        "bert.block_count": (U32, config.num_hidden_layers),
        "bert.attention.head_count": (U32, config.num_attention_heads),
        "bert.attention.layer_norm_epsilon": (F32, config.layer_norm_eps),
        "bert.attention.causal": (BOOL, False),
        "bert.pooling_type": (U32, POOLING[pooling]),
        "tokenizer.ggml.model": (STRING, "bert"),
        "tokenizer.ggml.token_type_count": (U32, config.type_vocab_size),
        "tokenizer.ggml.tokens": (ARRAY, (STRING, shown)),
        "tokenizer.ggml.token_type": (ARRAY, (I32, [CONTROL if token in special else NORMAL for token in tokens])),
        "tokenizer.ggml.bos_token_id": (U32, tokenizer.cls_token_id),
        "tokenizer.ggml.unknown_token_id": (U32, tokenizer.unk_token_id),
        "tokenizer.ggml.seperator_token_id": (U32, tokenizer.sep_token_id),
        "tokenizer.ggml.padding_token_id": (U32, tokenizer.pad_token_id),
    }


def _file(settings: dict[str, tuple[int, object]], tensors: dict[str, torch.Tensor]) -> bytes:
    head = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(settings))]
    for key, (kind, value) in settings.items():
        head += [_text(key), struct.pack("<I", kind), _value(kind, value)]
    bodies, offset = [], 0
    for name, values in tensors.items():
        sizes = list(reversed(values.shape))
        head += [_text(name), struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, 0, offset)]
        body = _padded(values.numpy().astype("<f4").tobytes())
        bodies.append(body)
        offset += len(body)
    return _padded(b"".join(head)) + b"".join(bodies)


def _value(kind: int, value) -> bytes:
    if kind == STRING:
        return _text(value)
    if kind == ARRAY:
        inner, items = value
        return struct.pack("<IQ", inner, len(items)) + b"".join(_value(inner, item) for item in items)
    return struct.pack({U32: "<I", I32: "<i", F32: "<f", BOOL: "<?"}[kind], value)


def _text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % ALIGNMENT)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("folder")
    parser.add_argument("--pooling", choices=list(POOLING), default="mean")
    make(parser.parse_args())
