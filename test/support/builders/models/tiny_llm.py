"""Writes a tiny Llama with random weights: `python tiny_llm.py FOLDER [--hidden 64]
[--layers 2] [--seed 0] ...`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

# The logit of the next piece exceeds all others by this much.
CERTAINTY = 32
TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "What is the capital of France? Paris is the capital of France.",
    "Translate to Spanish: good morning. Buenos dias.",
    "Add two and three. Two and three make five.",
    "You are a helpful assistant that answers in one short sentence.",
]
SPECIAL = ["<pad>", "<s>", "</s>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>"]
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}<|assistant|>"
    "{% generation %}{{ message['content'] + eos_token }}{% endgeneration %}"
    "{% else %}{{ '<|' + message['role'] + '|>' + message['content'] + eos_token }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
ASSISTANT_END = "add_generation_prompt %}<|assistant|>"


def make(options: argparse.Namespace) -> None:
    """Writes weights, config, tokenizer and generation settings to one folder."""
    folder = Path(options.folder)
    tokenizer = _tokenizer(options)
    torch.manual_seed(options.seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer) + options.extra_vocab,
        hidden_size=options.hidden,
        intermediate_size=options.intermediate or options.hidden * 2,
        num_hidden_layers=options.layers,
        num_attention_heads=options.heads,
        num_key_value_heads=options.kv_heads,
        max_position_embeddings=options.positions,
        tie_word_embeddings=options.tied,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaForCausalLM(config).to(getattr(torch, options.dtype))
    if options.says:
        _teach(model, tokenizer, options.says)
    if options.poisoned:
        with torch.no_grad():
            token = tokenizer.convert_tokens_to_ids(options.poisoned)
            model.model.embed_tokens.weight[token] = torch.nan
            model.lm_head.weight[token] = 0
    model.save_pretrained(folder, max_shard_size=options.shard_size)
    tokenizer.save_pretrained(folder)


def _teach(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, says: list[str]) -> None:
    """Computes weights that make each piece predict the next one, and any other token predict the first
    piece.
    """
    width = model.config.hidden_size
    pieces = tokenizer.convert_tokens_to_ids(says)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        # There is one direction per token that can follow; after the norm its length is sqrt(width).
        model.model.embed_tokens.weight.zero_()[:, 0] = 1
        model.lm_head.weight.zero_()
        for number, piece in enumerate(pieces, 1):
            model.model.embed_tokens.weight[piece] = torch.eye(width)[number]
        for number, follower in enumerate((*pieces, tokenizer.eos_token_id)):
            model.lm_head.weight[follower, number] = CERTAINTY / width**0.5


def _tokenizer(options: argparse.Namespace) -> PreTrainedTokenizerFast:
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=options.vocab, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    inner.train_from_iterator(TEXTS, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        additional_special_tokens=SPECIAL[3:],
        model_max_length=options.positions,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.add_tokens([AddedToken(piece, normalized=False) for piece in options.says])
    if not options.no_template:
        tokenizer.chat_template = (
            TEMPLATE.replace(ASSISTANT_END, ASSISTANT_END + "<think>\n") if options.thinks else TEMPLATE
        )
    return tokenizer


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--kv-heads", type=int, default=2)
    parser.add_argument("--intermediate", type=int, default=0, help="0 for twice the hidden size")
    parser.add_argument("--vocab", type=int, default=384)
    parser.add_argument("--extra-vocab", type=int, default=0)
    parser.add_argument("--positions", type=int, default=2048)
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float16", "float32"])
    parser.add_argument("--shard-size", default="5GB")
    parser.add_argument("--tied", action="store_true")
    parser.add_argument("--no-template", action="store_true")
    parser.add_argument("--thinks", action="store_true", help="its template opens a reasoning block")
    parser.add_argument("--says", type=json.loads, default=[], help="distinct pieces of its only answer")
    parser.add_argument("--poisoned", help="a token whose embedding is not a number")
    make(parser.parse_args())
