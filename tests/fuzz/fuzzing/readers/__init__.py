"""The readers by name."""

from __future__ import annotations

from fuzzing.reader import Reader
from fuzzing.readers import arrays, datasets, graphs, records, runs, tables

READERS: dict[str, Reader] = {
    reader.name: reader
    for module in (tables, arrays, graphs, records, datasets, runs)
    for reader in module.READERS
}
