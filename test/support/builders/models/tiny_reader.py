"""Writes a tiny OCR model with random weights: `python tiny_reader.py FOLDER [--kind trocr] ...`."""

from __future__ import annotations

import argparse
from itertools import pairwise
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    DonutImageProcessor,
    DonutProcessor,
    DonutSwinConfig,
    GenerationConfig,
    MBartConfig,
    PreTrainedTokenizerFast,
    TrOCRConfig,
    TrOCRProcessor,
    VisionEncoderDecoderConfig,
    VisionEncoderDecoderModel,
    ViTConfig,
    ViTImageProcessor,
)

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
FIELDS = ["<s_menu>", "<s_name>", "</s_name>", "<s_price>", "</s_price>", "</s_menu>"]
# The page that the Donut model always reads, token by token.
PAGE = ["</s>", "<s_menu>", "<s_name>", "T", "e", "a", "</s_name>", "<s_price>", "3", "</s_price>", "</s_menu>", "</s>"]
CERTAINTY = 1_000.0
SIZES = {
    "d_model": 64,
    "decoder_layers": 2,
    "decoder_attention_heads": 4,
    "decoder_ffn_dim": 128,
    "max_position_embeddings": 64,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
}
TOKENS = 12


def make(options: argparse.Namespace) -> None:
    """Writes weights, config, tokenizer and image preprocessing."""
    torch.manual_seed(options.seed)
    tokenizer = _tokenizer([] if options.kind == "trocr" else FIELDS)
    encoder, decoder, processor = (_trocr if options.kind == "trocr" else _donut)(tokenizer)
    config = VisionEncoderDecoderConfig.from_encoder_decoder_configs(
        encoder, decoder, decoder_start_token_id=2, pad_token_id=1, eos_token_id=2
    )
    model = VisionEncoderDecoderModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(8)
        if options.overflows:
            _overflow_on_black(model)
    model.generation_config = GenerationConfig(
        max_new_tokens=TOKENS,
        num_beams=2,
        decoder_start_token_id=2,
        pad_token_id=1,
        eos_token_id=2,
        # Without these biases, a random model hardly ever writes fields, and writes only one letter.
        sequence_bias=_chain(tokenizer.convert_tokens_to_ids(PAGE)) if options.kind == "donut" else None,
        no_repeat_ngram_size=2,
    )
    folder = Path(options.folder)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


def _overflow_on_black(model: VisionEncoderDecoderModel) -> None:
    """Makes the encoder count black pixels: white is 1, black is -1, and the activation passes only the black ones."""
    parameters = dict(model.encoder.named_parameters())
    [patches] = [value for name, value in parameters.items() if name.endswith("patch_embeddings.projection.weight")]
    patches[0].fill_(1_000 / patches[0].numel())
    parameters["embeddings.cls_token"][..., 0] = 1_000
    first, second = [value for value in parameters.values() if value.dim() == 2 and 128 in value.shape][:2]
    first[0].zero_()[0] = -1e20
    second[:, 0] = 1e30


def _chain(tokens: list[int]) -> list[list]:
    return [[[token, follower], CERTAINTY] for token, follower in pairwise(tokens)]


def _tokenizer(fields: list[str]) -> PreTrainedTokenizerFast:
    raw = Tokenizer(models.BPE(unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel()
    raw.decoder = decoders.ByteLevel()
    letters = [chr(code) for code in range(33, 127)]
    raw.train_from_iterator([], trainers.BpeTrainer(vocab_size=300, special_tokens=SPECIAL, initial_alphabet=letters))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<s>", pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )
    tokenizer.add_tokens(fields)
    return tokenizer


def _trocr(tokenizer: PreTrainedTokenizerFast):
    encoder = ViTConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=64, patch_size=16
    )
    processor = TrOCRProcessor(image_processor=ViTImageProcessor(size={"height": 64, "width": 64}), tokenizer=tokenizer)
    return encoder, TrOCRConfig(**SIZES, vocab_size=len(tokenizer)), processor


def _donut(tokenizer: PreTrainedTokenizerFast):
    encoder = DonutSwinConfig(
        image_size=[64, 48], patch_size=4, embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=4
    )
    decoder = MBartConfig(
        **SIZES, vocab_size=len(tokenizer), encoder_layers=2, is_decoder=True, add_cross_attention=True
    )
    processor = DonutProcessor(
        image_processor=DonutImageProcessor(size={"height": 64, "width": 48}), tokenizer=tokenizer
    )
    return encoder, decoder, processor


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--kind", choices=["trocr", "donut"], default="trocr")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--overflows", action="store_true")
    make(parser.parse_args())
