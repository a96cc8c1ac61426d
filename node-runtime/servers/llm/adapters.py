"""LoRA adapters of a model, which are loaded and removed while the model serves."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch

from light_torch import without_compiler

# How the node names adapters, so that no name of a caller is taken for one.
PREFIX = "adapter:"
# The prefix of the names of weights in PEFT's files.
PEFT_PREFIX = "base_model.model."
LORA_WEIGHTS = re.compile(r"\.lora_[AB]\.weight$")
# Settings of adapters that replace or extend the weights that all adapters share.
CHANGES_THE_MODEL = ("modules_to_save", "bias", "use_dora", "trainable_token_indices", "layer_replication")


class AdapterRefused(ValueError):
    """The adapter cannot be loaded; the message is for the owner of its model."""


@dataclass
class AdapterFiles:
    """An adapter in PEFT's format."""

    config: Any
    weights: dict[str, torch.Tensor]
    # Identifies these files on any machine.
    digest: str
    # The template of a model whose base has none.
    chat_template: str | None


@without_compiler()
def read_adapter(folder: Path) -> AdapterFiles:
    """Reads an adapter; raises AdapterRefused if its files are unusable."""
    settings = _read_json(folder / "adapter_config.json")
    kind = settings.get("peft_type")
    if kind != "LORA":
        raise AdapterRefused(f"the adapter is of the type {kind}, and only LORA can be loaded")
    for name in CHANGES_THE_MODEL:
        if settings.get(name) not in (None, False, "none", [], {}):
            raise AdapterRefused(f"the adapter has {name}, which would change the model for everyone")
    # The import takes seconds, and most servers have no adapters.
    from peft import PeftConfig
    from safetensors.torch import load_file

    try:
        config = PeftConfig.from_pretrained(str(folder))
        weights = load_file(folder / "adapter_model.safetensors")
    except Exception as error:  # The files come from strangers' programs, and PEFT has errors of its own.
        raise AdapterRefused(f"the adapter cannot be read: {error}") from error
    foreign = next((name for name in weights if not LORA_WEIGHTS.search(name)), None)
    if foreign is not None:
        raise AdapterRefused(f"the adapter has {foreign}, which is not a weight of a LoRA layer")
    # The other ways to begin an adapter change the weights that it is added to.
    config.init_lora_weights = True
    plain = {name.removeprefix(PEFT_PREFIX): tensor for name, tensor in weights.items()}
    return AdapterFiles(config, plain, _digest_of(folder), _template_in(folder))


@dataclass
class Adapter:
    """A loaded adapter."""

    # PEFT's name: keys of models may contain characters that PEFT does not allow.
    name: str
    digest: str
    chat_template: str | None


class Adapters:
    """The adapters of one model. Only the thread that calls `forward` may load, remove and choose them."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._loaded: dict[str, Adapter] = {}
        self._numbers = itertools.count()
        # PEFT's name of the adapter that the next pass uses; None for the model itself.
        self._chosen: str | None = None

    def has(self, name: str) -> bool:
        """Returns whether an adapter is loaded."""
        return name in self._loaded

    def names(self) -> list[str]:
        """Returns the names of the loaded adapters."""
        return list(self._loaded)

    def template_of(self, name: str | None) -> str | None:
        """Returns the chat template of an adapter; None if it has none."""
        adapter = self._loaded.get(name) if name else None
        return adapter.chat_template if adapter else None

    def digest_of(self, name: str | None) -> str:
        """Returns the digest of a loaded adapter; empty for the model itself."""
        adapter = self._loaded.get(name) if name else None
        return adapter.digest if adapter else ""

    @without_compiler()
    def load(self, name: str, files: AdapterFiles) -> None:
        """Adds an adapter; raises AdapterRefused if it doesn't fit the model."""
        from peft import inject_adapter_in_model, set_peft_model_state_dict

        if name in self._loaded:
            self.unload(name)
        adapter = Adapter(f"adapter_{next(self._numbers)}", files.digest, files.chat_template)
        try:
            with warnings.catch_warnings():
                # PEFT warns of a second adapter.
                warnings.simplefilter("ignore")
                inject_adapter_in_model(files.config, self._model, adapter.name)
            # New layers begin in training mode, in which they drop some of their inputs.
            self._model.eval()
            found = set_peft_model_state_dict(self._model, files.weights, adapter.name)
            own = [key for key in found.missing_keys if f".{adapter.name}." in key]
            if unfit := [*own, *found.unexpected_keys]:
                raise AdapterRefused(f"{len(unfit)} of its weights do not fit the model, such as {unfit[0]}")
            self._loaded[name] = adapter
        except Exception as error:
            self._forget(adapter.name)
            raise AdapterRefused(f"the adapter cannot be loaded: {error}") from error
        finally:
            self._choose(None)

    def unload(self, name: str) -> None:
        """Removes an adapter; raises KeyError if it is not loaded."""
        adapter = self._loaded.pop(name)
        self._forget(adapter.name)
        self._choose(None)

    def choose(self, name: str | None) -> None:
        """Makes the next pass use an adapter, or the model alone."""
        if name and name not in self._loaded:
            raise RuntimeError(f"the adapter {name} was unloaded")
        wanted = self._loaded[name].name if name else None
        if wanted != self._chosen:
            self._choose(wanted)

    def _choose(self, peft_name: str | None) -> None:
        for layer in self._layers():
            layer.enable_adapters(peft_name is not None)
            if peft_name is not None:
                layer.set_adapter(peft_name, inference_mode=True)
        self._chosen = peft_name

    def _forget(self, peft_name: str) -> None:
        for layer in self._layers():
            layer.delete_adapter(peft_name)
        getattr(self._model, "peft_config", {}).pop(peft_name, None)

    def _layers(self) -> list[Any]:
        """Returns the layers that have adapters."""
        from peft.tuners.tuners_utils import BaseTunerLayer

        return [layer for layer in self._model.modules() if isinstance(layer, BaseTunerLayer)]


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text("utf8"))
    except (OSError, ValueError) as error:
        raise AdapterRefused(f"{path.name} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise AdapterRefused(f"{path.name} is not a JSON object")
    return content


def _digest_of(folder: Path) -> str:
    digest = hashlib.sha256()
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        with (folder / name).open("rb") as file:
            # The environment has Python 3.11 or newer, unlike the checks' environment.
            digest.update(cast(Any, hashlib).file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _template_in(folder: Path) -> str | None:
    """Returns the template in an adapter's folder, in either of the formats of transformers."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text("utf8")
    settings = folder / "tokenizer_config.json"
    template = _read_json(settings).get("chat_template") if settings.is_file() else None
    return template if isinstance(template, str) else None
