"""What is known of a reader: its files, how they are mutated, and what reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from fuzzing.mutation import Mutate, mutate_bytes, splice

Files = dict[str, bytes]
"""Name -> bytes of the files of one input."""


@dataclass(frozen=True)
class Reader:
    """A reader under test.

    Attributes:
      name: as it is typed.
      seeds: makes the sound files that are mutated.
      reads: what reads all that a directory of such files offers; an input gets one of them, the
        next the next one.
      mutations: by a file's name, or "*" for others: what knows the file's structure.
      whole: changes all files together, where they depend on each other; or None.
      bytes_share: how often bytes are changed without regard to any structure.
    """

    name: str
    seeds: Callable[[], list[Files]]
    reads: tuple[Callable[[Path], None], ...]
    mutations: Mapping[str, Mutate] = field(default_factory=dict)
    whole: Callable[[Files, Random], Files] | None = None
    bytes_share: float = 0.3

    def mutated(self, files: Files, seeds: list[Files], random: Random) -> Files:
        """The files with one or two of them changed."""
        if self.whole is not None and random.random() >= self.bytes_share:
            return self.whole(dict(files), random)
        result = dict(files)
        for name in random.sample(list(files), min(len(files), random.choice((1, 1, 1, 2)))):
            mutate = self.mutations.get(name) or self.mutations.get("*")
            chance = random.random() if mutate is None else random.random() / self.bytes_share
            if mutate is not None and chance >= 1:
                result[name] = mutate(result[name], random)
            elif chance < 0.1:
                other = random.choice(seeds)
                result[name] = splice(result[name], other.get(name, b""), random)
            elif chance < 0.13 and len(result) > 1:
                del result[name]
                return result
            else:
                result[name] = mutate_bytes(result[name], random)
        return result
