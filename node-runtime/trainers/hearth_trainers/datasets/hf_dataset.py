"""Saved Hugging Face datasets: a directory, or a zip, tar or tar.gz of one,
with Arrow or Parquet files."""

from __future__ import annotations

import json
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

from ..errors import JobError
from ..protocol import warn_about_data
from .budget import Budget

_SUFFIXES = (".arrow", ".parquet")
_BATCH_ROWS = 8_192
Member = Callable[[], IO[bytes]]


def read_hf_dataset(path: Path, budget: Budget) -> pa.Table:
    """Reads one split of the dataset: `train`, or else the only or first one. Class labels are replaced by
    their names. Raises JobError for a file that is not a dataset.
    """
    with ExitStack() as archives:
        members = dict(_members(path, archives))
        names = _train_split(sorted(members))
        if not names:
            raise JobError("The dataset contains no .arrow or .parquet file.", code="bad_dataset")
        tables = [_read(name, members[name], budget) for name in names]
    return _named_labels(pa.concat_tables(tables, promote_options="permissive"))


def _members(path: Path, archives: ExitStack) -> Iterator[tuple[str, Member]]:
    """Yields the data files with functions to open them, which work until `archives` closes."""
    if path.is_dir():
        for file in path.rglob("*"):
            if file.suffix in _SUFFIXES:
                yield file.relative_to(path).as_posix(), lambda file=file: file.open("rb")
    elif zipfile.is_zipfile(path):
        archive = archives.enter_context(zipfile.ZipFile(path))
        for name in archive.namelist():
            if name.endswith(_SUFFIXES):
                yield name, lambda name=name: archive.open(name)
    elif tarfile.is_tarfile(path):
        yield from _tar_members(archives.enter_context(tarfile.TarFile.open(path)))
    else:
        raise JobError("The dataset is neither a directory nor a zip, tar or tar.gz file.", code="bad_dataset")


def _tar_members(archive: tarfile.TarFile) -> Iterator[tuple[str, Member]]:
    # Members are not extracted to disk by name, so none can escape to another folder.
    for member in archive:
        if member.isfile() and member.name.endswith(_SUFFIXES):
            stream = archive.extractfile(member)
            if stream is not None:
                yield member.name, lambda stream=stream: stream


def _train_split(names: list[str]) -> list[str]:
    # The datasets library leaves its caches next to the data.
    data = [name for name in names if not PurePosixPath(name).name.startswith((".", "cache-", "tmp"))]
    splits: dict[str, list[str]] = {}
    for name in data:
        splits.setdefault(_split_of(name), []).append(name)
    if len(splits) <= 1:
        return data
    chosen = "train" if "train" in splits else sorted(splits)[0]
    warn_about_data(
        f"The dataset has the splits {', '.join(sorted(splits))}; training uses only {chosen}.", count=len(splits) - 1
    )
    return splits[chosen]


def _split_of(name: str) -> str:
    """`train/data-00000-of-00001.arrow` and `data/train-00000-of-00001.parquet` both belong to the split
    `train`.
    """
    path = PurePosixPath(name)
    stem = path.stem.split("-")[0]
    if stem in ("train", "test", "validation", "valid", "dev"):
        return stem
    return path.parent.name


def _read(name: str, member: Member, budget: Budget) -> pa.Table:
    with _on_disk(member) as path:
        if name.endswith(".parquet"):
            return read_parquet(path, budget)
        try:
            with pa.OSFile(str(path)) as file, ipc.open_stream(file) as reader:
                return budget.collect(reader, reader.schema)
        except pa.ArrowInvalid:
            with pa.OSFile(str(path)) as file, ipc.open_file(file) as reader:
                batches = (reader.get_batch(index) for index in range(reader.num_record_batches))
                return budget.collect(batches, reader.schema)


@contextmanager
def _on_disk(member: Member) -> Iterator[Path]:
    """Reads one file of an archive at a time, through the disk, because the archive's author decides how
    large a member is when unpacked.
    """
    with tempfile.NamedTemporaryFile() as copy, member() as stream:
        shutil.copyfileobj(stream, copy, 1 << 20)
        copy.flush()
        yield Path(copy.name)


def read_parquet(path: Path, budget: Budget) -> pa.Table:
    """Reads the rows of a Parquet file in small batches: a small file may hold one long
    text for millions of rows."""
    with pq.ParquetFile(path) as file:
        return budget.collect(file.iter_batches(batch_size=_BATCH_ROWS), file.schema_arrow)


def _named_labels(table: pa.Table) -> pa.Table:
    """Replaces the numbers in ClassLabel columns with the names of the classes."""
    metadata = (table.schema.metadata or {}).get(b"huggingface")
    if not metadata:
        return table
    features = json.loads(metadata).get("info", {}).get("features", {})
    for index, column in enumerate(table.column_names):
        feature = features.get(column)
        if not isinstance(feature, dict) or feature.get("_type") != "ClassLabel" or not feature.get("names"):
            continue
        names = pa.array(feature["names"])
        numbers = table.column(column)
        # -1 means a missing label.
        known = pc.if_else(pc.greater_equal(numbers, 0), numbers, pa.scalar(None, numbers.type))
        table = table.set_column(index, column, pc.take(names, known))
    return table
