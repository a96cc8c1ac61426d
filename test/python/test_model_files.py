from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from exchange import BadPayload, Exchange
from hearth_trainers.files import BadModelFile, model_file, read_json
from specialist.layout import BadModel, Pooling, read_layout


def write(folder: Path, **files: Any) -> Path:
    for name, content in files.items():
        path = folder / (name.replace("__", "/") + ".json")
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content))
    return folder


def test_model_file_returns_a_regular_file_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "model.txt").write_text("x")

    assert model_file(tmp_path, "model.txt") == tmp_path / "model.txt"


@pytest.mark.parametrize("name", ["", ".", "..", "../model.txt", "a/b", "a\\b", "a\0", "missing", "link", "folder", 3])
def test_model_file_refuses_other_names(tmp_path: Path, name: Any) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("/etc/passwd")

    with pytest.raises(BadModelFile):
        model_file(tmp_path, name)


def test_read_json_quotes_nothing_of_a_damaged_file(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{secret")

    with pytest.raises(BadModelFile, match=r"^a\.json is not JSON$"):
        read_json(tmp_path, "a.json")


def test_read_layout_reads_a_classifier(tmp_path: Path) -> None:
    config = {"architectures": ["BertForSequenceClassification"], "id2label": {"10": "c", "2": "b"}}
    layout = read_layout(write(tmp_path, config={**config, "max_position_embeddings": 128, "type_vocab_size": 2}))

    assert layout.labels == ("b", "c")
    assert layout.has_head
    assert not layout.ranks
    assert layout.max_tokens == 128
    assert layout.has_types


def test_read_layout_subtracts_the_offset_of_positions(tmp_path: Path) -> None:
    config = {"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1}

    assert read_layout(write(tmp_path, config=config)).max_tokens == 512


def test_read_layout_reads_the_pooling_of_sentence_transformers(tmp_path: Path) -> None:
    modules = [
        {"type": "sentence_transformers.models.Transformer", "path": ""},
        {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
        {"type": "sentence_transformers.models.Normalize", "path": "2_Normalize"},
    ]
    pooling = {"pooling_mode_cls_token": True, "include_prompt": False}
    folder = write(tmp_path, config={"architectures": ["BertModel"]}, modules=modules, **{"1_Pooling__config": pooling})

    assert read_layout(folder).pooling == Pooling(("cls",), has_prompt=False, normalizes=True)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "no config.json"),
        ({"config": {}, "modules": {}}, "not a list"),
        ({"config": {}, "modules": [{"type": "x.Dense"}]}, "Dense"),
        ({"config": {}, "modules": [{"type": "x.Pooling", "path": "../.."}]}, "outside its folder"),
        ({"config": {"architectures": ["XForSequenceClassification"], "id2label": {"a": "b"}}}, "numbers the labels"),
    ],
)
def test_read_layout_says_why_a_model_cannot_be_served(tmp_path: Path, files: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadModel, match=reason):
        read_layout(write(tmp_path, **files))


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", ".hidden", "", None, "x" * 129])
def test_exchange_accepts_plain_names_only(tmp_path: Path, name: Any) -> None:
    with pytest.raises(BadPayload) as problem:
        Exchange(tmp_path).path_of(name)
    assert problem.value.failure == "refused"


def test_exchange_refuses_links_and_files_of_another_size(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "link").symlink_to(tmp_path / "file")

    for name, size, failure in (("link", 3, "payload_gone"), ("none", 3, "payload_gone"), ("file", 4, "size_mismatch")):
        with pytest.raises(BadPayload) as problem:
            Exchange(tmp_path).verified(name, size, "0" * 64)
        assert problem.value.failure == failure
