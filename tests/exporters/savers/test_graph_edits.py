"""New names in a graph that is changed."""

from __future__ import annotations

from exporters.graph import as_graph
from exporters.savers.graph_edits import GraphEdits


class Counted(dict):
    """A dictionary that counts how often somebody looks whether a name is there."""

    looks = 0

    def __contains__(self, name):
        self.looks += 1
        return super().__contains__(name)


def test_many_nodes_of_one_hint_are_named_without_a_search(builder):
    builder.add("NoOp", "taken_2")
    edits = GraphEdits(as_graph(builder.graph_def))
    edits.added = Counted()
    names = [edits.add("NoOp", "taken").name for _ in range(1000)]
    assert names[:4] == ["taken", "taken_1", "taken_3", "taken_4"]
    assert names[-1] == "taken_1000"
    assert edits.added.looks < 3000
