"""A graph on its way into inference mode: what every rewrite takes and gives back."""

from __future__ import annotations

from dataclasses import dataclass, replace

from exporters.graph import Graph
from exporters.names import TensorName
from exporters.rewrites.changes import Changes
from exporters.rewrites.stale_reads import StaleRead


@dataclass(frozen=True, eq=False)
class Draft:
    """A graph with its endpoints, and what was done to it so far.

    Attributes:
      graph: the graph.
      outputs: the tensors that hold answers.
      cuts: tensors where placeholders are to be put in.
      said: what was done, a line each.
      problems: what would have had to be done and could not, a line each.
      is_faithful: whether the graph it was made from gives the same answers once its settings
        are fed; not where batch norm or dropout were rewritten, which it had in training mode.
      stale: reads of variables after writes that were cut, of any state of the graph so far.
    """

    graph: Graph
    outputs: tuple[TensorName, ...]
    cuts: tuple[TensorName, ...] = ()
    said: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    is_faithful: bool = True
    stale: tuple[StaleRead, ...] = ()

    @property
    def kept(self) -> tuple[TensorName, ...]:
        """The tensors that have to be found under their names."""
        return self.outputs + self.cuts

    def changes(self) -> Changes:
        """Changes to its graph that leave its endpoints in place."""
        return Changes(self.graph, self.kept)

    def changed(self, changes: Changes, *said: str) -> Draft:
        """The draft with changes made to its graph; itself where there are none."""
        if not changes:
            return self
        return replace(
            self,
            graph=changes.applied(),
            outputs=tuple(map(changes.renamed, self.outputs)),
            cuts=tuple(map(changes.renamed, self.cuts)),
            said=self.said + said,
        )
