"""Writes a tiny translation model with random weights: `python tiny_translator.py FOLDER [--kind nllb] ...`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import (
    M2M100Config,
    M2M100ForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    MarianTokenizer,
    NllbTokenizer,
)

TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "What is the capital of France? Paris is the capital of France.",
    "Der schnelle braune Fuchs springt. Die Hauptstadt von Frankreich ist Paris.",
]
CODES = ["eng_Latn", "deu_Latn", "fra_Latn"]
SIZES = {
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
}


def make(options: argparse.Namespace) -> None:
    """Writes weights, config and tokenizer."""
    folder = Path(options.folder)
    torch.manual_seed(options.seed)
    model, tokenizer = (_nllb if options.kind == "nllb" else _marian)(folder, options.positions)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(8)
    # A random model would hardly ever stop generating.
    model.generation_config.max_new_tokens = 12
    model.generation_config.num_beams = 2
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _nllb(_: Path, positions: int):
    raw = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    raw.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<s>", "<pad>", "</s>", "<unk>"])
    raw.train_from_iterator(TEXTS * 20, trainer)
    data = json.loads(raw.to_str())["model"]
    tokenizer = NllbTokenizer(
        vocab=data["vocab"],
        merges=[tuple(merge) for merge in data["merges"]],
        src_lang="eng_Latn",
        additional_special_tokens=CODES,
        model_max_length=positions,
    )
    config = M2M100Config(
        **SIZES,
        vocab_size=len(tokenizer),
        max_position_embeddings=positions,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.eos_token_id,
    )
    return M2M100ForConditionalGeneration(config), tokenizer


def _marian(folder: Path, positions: int):
    import sentencepiece

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "texts.txt").write_text("\n".join(TEXTS * 20))
    for side in ("source", "target"):
        sentencepiece.SentencePieceTrainer.train(
            input=str(folder / "texts.txt"), model_prefix=str(folder / side), vocab_size=50, minloglevel=2
        )
    (folder / "texts.txt").unlink()
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.model"))
    words = [processor.id_to_piece(number) for number in range(processor.get_piece_size())]
    vocab = {word: number for number, word in enumerate(["</s>", "<unk>", *words[3:], "<pad>"])}
    (folder / "vocab.json").write_text(json.dumps(vocab))
    for side in ("source", "target"):
        (folder / f"{side}.model").rename(folder / f"{side}.spm")
        (folder / f"{side}.vocab").unlink()
    tokenizer = MarianTokenizer(
        vocab=str(folder / "vocab.json"),
        source_spm=str(folder / "source.spm"),
        target_spm=str(folder / "target.spm"),
        model_max_length=positions,
    )
    config = MarianConfig(
        **SIZES,
        vocab_size=len(vocab),
        max_position_embeddings=positions,
        pad_token_id=vocab["<pad>"],
        eos_token_id=vocab["</s>"],
        decoder_start_token_id=vocab["<pad>"],
    )
    return MarianMTModel(config), tokenizer


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--kind", choices=["nllb", "marian"], default="nllb")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--positions", type=int, default=128)
    make(parser.parse_args())
