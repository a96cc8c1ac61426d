"""Reads a model's purpose from its folder: the head, the labels, how texts are prepared and how vectors are
computed, in the formats of transformers and sentence-transformers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from json_values import is_list, is_object

HEADED = "ForSequenceClassification"
MULTI_LABEL = "multi_label_classification"
TYPES = "token_type_ids"
# Architectures whose positions start after the id of the padding token.
OFFSET_POSITIONS = frozenset({"roberta", "xlm-roberta", "camembert", "mpnet"})
# A tokenizer without a limit declares a number at least this large.
NO_LIMIT = 1_000_000
USUAL_TOKENS = 512
MODES = ("cls", "max", "mean", "mean_sqrt_len_tokens", "lasttoken")
# The names of these modes in pooling configurations.
MODE_FIELDS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_lasttoken": "lasttoken",
}
OTHER_MODES = ("pooling_mode_weightedmean_tokens",)


class BadModel(Exception):
    """The files describe a model that this server cannot serve; the message says why."""


@dataclass(frozen=True)
class Pooling:
    """How to compute one vector from the vectors of the tokens."""

    modes: tuple[str, ...] = ("mean",)
    has_prompt: bool = True
    normalizes: bool = True


@dataclass(frozen=True)
class Layout:
    """The properties of a model that its files declare."""

    folder: Path
    config: Mapping[str, Any]
    # The names of the classes; empty for an embedding model.
    labels: tuple[str, ...]
    is_multi_label: bool
    pooling: Pooling
    max_tokens: int
    # True if the model accepts `token_type_ids`.
    has_types: bool
    lowercases: bool
    prompts: Mapping[str, str]
    default_prompt: str | None
    # The lengths to which a vector may be cut; `True` for any.
    dimensions: tuple[int, ...] | bool

    @property
    def has_head(self) -> bool:
        """True when the model classifies."""
        return bool(self.labels)

    @property
    def ranks(self) -> bool:
        """True when the head computes a single score for a pair of texts."""
        return len(self.labels) == 1 and not self.is_multi_label


def read_layout(folder: Path) -> Layout:
    """Reads the layout of a folder; raises `BadModel` for one that cannot be served."""
    config = _object(folder, "config.json")
    if config is None:
        raise BadModel("its folder has no config.json")
    architecture = str((config.get("architectures") or [""])[0])
    tokenizer = _object(folder, "tokenizer_config.json") or {}
    labels = _labels(config) if architecture.endswith(HEADED) else ()
    sentence = _object(folder, "config_sentence_transformers.json") or {}
    transformer = _object(folder, "sentence_bert_config.json") or {}
    written: dict[Any, Any] = sentence.get("prompts") or {}
    prompts = {str(name): text for name, text in written.items() if isinstance(text, str)}
    default = sentence.get("default_prompt_name")
    return Layout(
        folder=folder,
        config=config,
        labels=labels,
        is_multi_label=config.get("problem_type") == MULTI_LABEL,
        pooling=Pooling() if labels else _pooling(folder),
        max_tokens=_max_tokens(config, tokenizer, transformer),
        has_types=_has_types(config, tokenizer),
        lowercases=transformer.get("do_lower_case") is True,
        prompts=prompts,
        default_prompt=default if default in prompts else None,
        dimensions=_dimensions(config, sentence),
    )


def _labels(config: Mapping[str, Any]) -> tuple[str, ...]:
    names = config.get("id2label")
    if is_object(names) and names:
        try:
            return tuple(str(names[key]) for key in sorted(names, key=int))
        except ValueError:
            raise BadModel("its config.json numbers the labels with something other than numbers") from None
    count = config.get("num_labels", 2)
    return tuple(f"LABEL_{number}" for number in range(count if isinstance(count, int) else 2))


def _pooling(folder: Path) -> Pooling:
    modules = _read(folder, "modules.json")
    if modules is None:
        return Pooling()
    if not is_list(modules) or not all(is_object(module) for module in modules):
        raise BadModel("its modules.json is not a list of modules")
    found = Pooling(normalizes=False)
    for module in modules:
        kind = str(module.get("type", "")).rsplit(".", 1)[-1]
        place = str(module.get("path", ""))
        if kind == "Transformer":
            if place not in ("", "."):
                raise BadModel(f"its modules.json keeps the weights in the folder {place}")
        elif kind == "Pooling":
            modes, has_prompt = _modes(_object(_inside(folder, place), "config.json") or {})
            found = Pooling(modes, has_prompt, found.normalizes)
        elif kind == "Normalize":
            found = Pooling(found.modes, found.has_prompt, True)
        else:
            raise BadModel(f"its modules.json requires the module {kind}, which this server does not support")
    return found


def _modes(config: Mapping[str, Any]) -> tuple[tuple[str, ...], bool]:
    has_prompt = config.get("include_prompt") is not False
    named = config.get("pooling_mode")
    if named is not None:
        wanted = [named] if isinstance(named, str) else list(named)
        unknown = [mode for mode in wanted if mode not in MODES]
    else:
        wanted = [mode for field, mode in MODE_FIELDS.items() if config.get(field)]
        unknown = [field for field in OTHER_MODES if config.get(field)]
    if unknown:
        raise BadModel(f"its pooling is {unknown[0]}, which this server does not support")
    return tuple(mode for mode in MODES if mode in wanted) or ("mean",), has_prompt


def _has_types(config: Mapping[str, Any], tokenizer: Mapping[str, Any]) -> bool:
    if int(config.get("type_vocab_size") or 0) < 2:
        return False
    listed = tokenizer.get("model_input_names")
    if is_list(listed):
        return TYPES in listed
    # The only transformers class that omits token types unless they are listed.
    return tokenizer.get("tokenizer_class") != "TokenizersBackend"


def _max_tokens(config: Mapping[str, Any], tokenizer: Mapping[str, Any], transformer: Mapping[str, Any]) -> int:
    declared = transformer.get("max_seq_length") or tokenizer.get("model_max_length")
    positions = config.get("max_position_embeddings")
    if isinstance(positions, int) and config.get("model_type") in OFFSET_POSITIONS:
        positions -= (config.get("pad_token_id") or 0) + 1
    limits = [int(limit) for limit in (declared, positions) if isinstance(limit, (int, float)) and 2 < limit < NO_LIMIT]
    return min(limits, default=USUAL_TOKENS)


def _dimensions(config: Mapping[str, Any], sentence: Mapping[str, Any]) -> tuple[int, ...] | bool:
    listed = config.get("matryoshka_dimensions")
    if is_list(listed):
        return tuple(sorted(size for size in listed if isinstance(size, int) and size > 0))
    if config.get("is_matryoshka") is True or isinstance(sentence.get("truncate_dim"), int):
        return True
    return ()


def _object(folder: Path, name: str) -> dict[str, Any] | None:
    content = _read(folder, name)
    return content if is_object(content) else None


def _inside(folder: Path, place: str) -> Path:
    if Path(place).is_absolute() or ".." in Path(place).parts:
        raise BadModel("its modules.json refers to a path outside its folder")
    return folder / place


def _read(folder: Path, name: str) -> Any:
    try:
        return json.loads((folder / name).read_text("utf8"))
    except FileNotFoundError:
        return None
    except (UnicodeDecodeError, json.JSONDecodeError):
        raise BadModel(f"its {name} is not JSON") from None
