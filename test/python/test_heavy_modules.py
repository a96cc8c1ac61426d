"""Tests modules whose libraries are not installed where the checks run, using stand-ins for these libraries."""

from __future__ import annotations

import importlib
import io
import os
import sys
import tarfile
import zipfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from hearth_trainers.errors import JobError
from llm.generation import Generation
from llm.options import Sampling, Unusable


@contextmanager
def imported(name: str, *libraries: str) -> Generator[Any, None, None]:
    """Imports a module with stand-ins for its libraries, and unloads everything that the import loads."""
    before = dict(sys.modules)
    sys.modules.update({library: MagicMock() for library in libraries})
    try:
        yield importlib.import_module(name)
    finally:
        for added in set(sys.modules) - set(before):
            del sys.modules[added]
        sys.modules.update(before)


@pytest.fixture
def model() -> Iterator[Any]:
    libraries = ("torch", "accelerator", "light_torch", "transformers", "transformers.cache_utils")
    with imported("llm.model", *libraries, "transformers.utils") as module:
        yield module


@pytest.fixture
def hf_dataset() -> Iterator[Any]:
    libraries = ("pyarrow", "pyarrow.compute", "pyarrow.ipc", "pyarrow.parquet")
    with imported("hearth_trainers.datasets.hf_dataset", *libraries) as module:
        yield module


def test_model_refuses_a_prompt_without_tokens(model: Any) -> None:
    opened = SimpleNamespace(context=8, device=SimpleNamespace(type="cpu"))
    generation = Generation([], Sampling())

    with pytest.raises(Unusable, match="no tokens") as problem:
        model.LanguageModel.remaining_tokens(opened, generation)
    assert problem.value.field == "messages"


def write_archive(path: Path, name: str) -> None:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, b"rows")
    else:
        with tarfile.open(path, "w") as archive:
            member = tarfile.TarInfo(name)
            member.size = 4
            archive.addfile(member, io.BytesIO(b"rows"))


def is_open(path: Path) -> bool:
    links = (Path("/proc/self/fd", number) for number in os.listdir("/proc/self/fd"))
    return any(link.is_symlink() and os.readlink(link) == str(path) for link in links)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="this machine has no /proc")
@pytest.mark.parametrize("suffix", [".zip", ".tar"])
def test_hf_dataset_closes_an_archive_that_holds_no_data(hf_dataset: Any, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"data{suffix}"
    write_archive(path, "notes.txt")

    # The error keeps alive the frames that opened the archive, so only an explicit call can have closed it.
    with pytest.raises(JobError) as problem:
        hf_dataset.read_hf_dataset(path, None)

    assert problem.value.code == "bad_dataset"
    assert not is_open(path)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="this machine has no /proc")
@pytest.mark.parametrize("suffix", [".zip", ".tar"])
def test_hf_dataset_reads_the_members_of_an_open_archive(
    hf_dataset: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"data{suffix}"
    write_archive(path, "train.parquet")
    contents: list[bytes] = []

    def read_parquet(copy: Path, _: Any) -> None:
        assert is_open(path)
        contents.append(copy.read_bytes())

    monkeypatch.setattr(hf_dataset, "read_parquet", read_parquet)
    monkeypatch.setattr(hf_dataset, "_named_labels", str)

    hf_dataset.read_hf_dataset(path, None)

    assert contents == [b"rows"]
    assert not is_open(path)
