"""The memory budget for reading a dataset."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from ..errors import too_much_memory


class Budget:
    """Counts the bytes read, so that a file that unpacks endlessly is rejected before it exhausts the
    machine.
    """

    def __init__(self, limit_mb: int | None) -> None:
        self._limit_mb = limit_mb
        self._bytes = 0

    def take(self, count: int) -> None:
        """Adds bytes that stay in memory; rejects those beyond the limit."""
        self._bytes += count
        if self._limit_mb is not None and self._bytes > self._limit_mb << 20:
            raise too_much_memory(self._limit_mb, -(-self._bytes >> 20))

    def collect(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
        """Collects the batches into one table."""
        parts = []
        types = [_written_out(one) for one in schema.types]
        whole = pa.schema(
            [field.with_type(kind) for field, kind in zip(schema, types, strict=True)], metadata=schema.metadata
        )
        for batch in batches:
            # A row group may store a value only once even though every row contains it.
            columns = [one.dictionary_decode() if pa.types.is_dictionary(one.type) else one for one in batch.columns]
            rows = pa.RecordBatch.from_arrays(columns, schema=whole)
            self.take(rows.nbytes)
            parts.append(rows)
        return pa.Table.from_batches(parts, whole)


def _written_out(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
