"""Writes a tiny Whisper with random weights: `python tiny_speech.py FOLDER [--seed 0] [--hidden 64] [--layers 2]
[--heads 4] [--feed-forward 128]`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    GenerationConfig,
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
    WhisperTokenizerFast,
)
from transformers.models.whisper.tokenization_whisper import LANGUAGES

TEXTS = ["The quick brown fox jumps over the lazy dog.", "What is the capital of France? Paris."]


def make(options: argparse.Namespace) -> None:
    """Writes weights, config, generation config, tokenizer and feature extractor."""
    folder = Path(options.folder)
    torch.manual_seed(options.seed)
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    raw.train_from_iterator(TEXTS * 20, trainers.BpeTrainer(vocab_size=320, initial_alphabet=alphabet))
    # Only the vocabularies of multilingual models have this token, by which CTranslate2 recognizes them.
    described = json.loads(raw.to_str())
    described["model"]["vocab"][""] = len(described["model"]["vocab"])
    raw = Tokenizer.from_str(json.dumps(described))
    codes = list(LANGUAGES)
    specials = [
        "<|endoftext|>",
        "<|startoftranscript|>",
        *(f"<|{code}|>" for code in codes),
        "<|translate|>",
        "<|transcribe|>",
        "<|startoflm|>",
        "<|startofprev|>",
        "<|nospeech|>",
        "<|notimestamps|>",
    ]
    raw.add_special_tokens(specials)
    raw.add_tokens([f"<|{number * 0.02:.2f}|>" for number in range(1501)])
    number = raw.token_to_id
    tokenizer = WhisperTokenizerFast(
        tokenizer_object=raw,
        unk_token="<|endoftext|>",
        bos_token="<|endoftext|>",
        eos_token="<|endoftext|>",
        pad_token="<|endoftext|>",
    )
    end, start = number("<|endoftext|>"), number("<|startoftranscript|>")
    config = WhisperConfig(
        vocab_size=raw.get_vocab_size(),
        d_model=options.hidden,
        encoder_layers=options.layers,
        decoder_layers=options.layers,
        encoder_attention_heads=options.heads,
        decoder_attention_heads=options.heads,
        encoder_ffn_dim=options.feed_forward,
        decoder_ffn_dim=options.feed_forward,
        pad_token_id=end,
        bos_token_id=end,
        eos_token_id=end,
        decoder_start_token_id=start,
        suppress_tokens=[],
        begin_suppress_tokens=[],
    )
    model = WhisperForConditionalGeneration(config)
    model.generation_config = GenerationConfig(
        is_multilingual=True,
        lang_to_id={f"<|{code}|>": number(f"<|{code}|>") for code in codes},
        task_to_id={"transcribe": number("<|transcribe|>"), "translate": number("<|translate|>")},
        no_timestamps_token_id=number("<|notimestamps|>"),
        prev_sot_token_id=number("<|startofprev|>"),
        decoder_start_token_id=start,
        pad_token_id=end,
        bos_token_id=end,
        eos_token_id=end,
        max_length=448,
        return_timestamps=False,
        suppress_tokens=[],
        begin_suppress_tokens=[],
        alignment_heads=[[0, 0]],
    )
    # With this library flag set, a model would ignore a request's settings.
    model.generation_config._from_model_config = False
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    WhisperFeatureExtractor(feature_size=80).save_pretrained(folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--feed-forward", type=int, default=128)
    make(parser.parse_args())
