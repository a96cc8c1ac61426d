"""Writes a tiny specialist with random weights: `python tiny_specialist.py FOLDER
[--kind embeddings] [--architecture bert] ...`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "What is the capital of France? Paris is the capital of France.",
    "You are a helpful assistant that answers in one short sentence.",
    "I hate you and everything that you have ever written.",
    "Numbers: 0 1 2 3 4 5 6 7 8 9. Letters: a b c d e f g h i j k l m n o p q r s t u v w x y z.",
]
NAMES = {
    "bert": "Bert",
    "roberta": "Roberta",
    "xlm-roberta": "XLMRoberta",
    "distilbert": "DistilBert",
    "mpnet": "MPNet",
    "electra": "Electra",
    "deberta-v2": "DebertaV2",
    "camembert": "Camembert",
}
# The positions of these families start after the id of the padding token.
OFFSET = {"roberta", "xlm-roberta", "mpnet", "camembert"}
LABELS = {
    "rerank": ["LABEL_0"],
    "moderation": ["hate", "threat", "spam"],
    "classification": ["negative", "neutral", "positive"],
}
POOLING = {"mean": "mean_tokens", "cls": "cls_token", "max": "max_tokens"}


def make(options: argparse.Namespace) -> None:
    """Writes weights, config, tokenizer and the sentence-transformers layout."""
    folder = Path(options.folder)
    tokenizer = _tokenizer(options)
    torch.manual_seed(options.seed)
    name = NAMES[options.architecture]
    config = getattr(transformers, f"{name}Config")(**_sizes(options, tokenizer))
    labels = LABELS.get(options.kind)
    if labels:
        config.id2label = dict(enumerate(labels))
        config.label2id = {label: number for number, label in config.id2label.items()}
        config.problem_type = "multi_label_classification" if options.kind == "moderation" else None
    if options.dimensions:
        config.matryoshka_dimensions = options.dimensions
    model = getattr(transformers, f"{name}{'ForSequenceClassification' if labels else 'Model'}")(config)
    # With the default initialization, the model returns almost the same numbers for any text.
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(options.spread)
        if options.broken is not None:
            model.get_submodule("embeddings.position_embeddings").weight[options.broken :].fill_(float("nan"))
    model.to(getattr(torch, options.dtype)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if not labels and not options.plain:
        _layout(folder, options)


def _sizes(options: argparse.Namespace, tokenizer: PreTrainedTokenizerFast) -> dict[str, object]:
    positions = options.positions + (tokenizer.pad_token_id + 1 if options.architecture in OFFSET else 0)
    common = {
        "vocab_size": len(tokenizer) + options.extra_vocab,
        "max_position_embeddings": positions,
        "pad_token_id": tokenizer.pad_token_id,
    }
    if options.architecture == "distilbert":
        return {
            **common,
            "dim": options.hidden,
            "n_layers": options.layers,
            "n_heads": options.heads,
            "hidden_dim": options.hidden * 4,
        }
    more = {"hidden_size": options.hidden, "num_hidden_layers": options.layers, "num_attention_heads": options.heads}
    if options.architecture == "electra":
        more["embedding_size"] = options.hidden
    if options.architecture == "deberta-v2":
        more |= {
            "relative_attention": True,
            "pos_att_type": ["p2c", "c2p"],
            "position_buckets": 32,
            "norm_rel_ebd": "layer_norm",
        }
    types = {
        "type_vocab_size": 2
        if options.architecture in {"bert", "electra"}
        else 1
        if options.architecture != "deberta-v2"
        else 0
    }
    return {**common, **more, **types, "intermediate_size": options.hidden * 4}


def _tokenizer(options: argparse.Namespace) -> PreTrainedTokenizerFast:
    is_pieces = options.architecture in OFFSET
    names = (
        {"cls": "<s>", "sep": "</s>", "pad": "<pad>", "unk": "<unk>"}
        if is_pieces
        else {"cls": "[CLS]", "sep": "[SEP]", "pad": "[PAD]", "unk": "[UNK]"}
    )
    order = ["cls", "pad", "sep", "unk"] if is_pieces else ["pad", "unk", "cls", "sep"]
    special = [names[one] for one in order]
    if is_pieces:
        inner = Tokenizer(models.Unigram())
        inner.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=options.vocab, special_tokens=special, unk_token="<unk>", show_progress=False
        )
    else:
        inner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        inner.normalizer = normalizers.BertNormalizer(lowercase=True)
        inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=options.vocab, special_tokens=special, show_progress=False)
    inner.train_from_iterator(TEXTS, trainer)
    cls, sep = names["cls"], names["sep"]
    pair = f"{cls} $A {sep} {sep} $B {sep}" if is_pieces else f"{cls} $A {sep} $B:1 {sep}:1"
    inner.post_processor = processors.TemplateProcessing(
        single=f"{cls} $A {sep}", pair=pair, special_tokens=[(one, inner.token_to_id(one)) for one in (cls, sep)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        cls_token=cls,
        sep_token=sep,
        pad_token=names["pad"],
        unk_token=names["unk"],
        model_max_length=options.positions,
        model_input_names=[
            "input_ids",
            *([] if is_pieces or options.architecture == "distilbert" else ["token_type_ids"]),
            "attention_mask",
        ],
    )


def _layout(folder: Path, options: argparse.Namespace) -> None:
    kinds = ["Transformer", "Pooling"] + ([] if options.unnormalized else ["Normalize"])
    places = ["", "1_Pooling", "2_Normalize"]
    modules = [
        {"idx": number, "name": str(number), "path": places[number], "type": f"sentence_transformers.models.{kind}"}
        for number, kind in enumerate(kinds)
    ]
    (folder / "1_Pooling").mkdir(exist_ok=True)
    pooling = {f"pooling_mode_{mode}": name == options.pooling for name, mode in POOLING.items()}
    pooling |= {"word_embedding_dimension": options.hidden, "include_prompt": not options.prompt_excluded}
    sentence = {"prompts": options.prompts, "default_prompt_name": None}
    files = {
        "modules.json": modules,
        "1_Pooling/config.json": pooling,
        "sentence_bert_config.json": {"max_seq_length": options.positions, "do_lower_case": False},
        "config_sentence_transformers.json": sentence,
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--kind", default="embeddings", choices=["embeddings", *LABELS])
    parser.add_argument("--architecture", default="bert", choices=list(NAMES))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--extra-vocab", type=int, default=0)
    parser.add_argument("--vocab", type=int, default=256)
    parser.add_argument("--positions", type=int, default=128)
    parser.add_argument("--spread", type=float, default=4.0)
    parser.add_argument("--dtype", default="float32", choices=["bfloat16", "float16", "float32"])
    parser.add_argument("--pooling", default="mean", choices=list(POOLING))
    parser.add_argument("--dimensions", type=json.loads, default=[])
    parser.add_argument("--prompts", type=json.loads, default={})
    parser.add_argument("--prompt-excluded", action="store_true")
    parser.add_argument("--unnormalized", action="store_true")
    parser.add_argument("--plain", action="store_true", help="without the sentence-transformers layout")
    parser.add_argument("--broken", type=int, help="the first position whose weights are NaN")
    make(parser.parse_args())
