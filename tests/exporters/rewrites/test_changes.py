import numpy as np
import pytest

from checkpoints.messages import NodeDef
from exporters.names import TensorName
from exporters.rewrites.changes import Changes

FLOAT = np.dtype("float32")


@pytest.fixture
def chain(builder):
    """a -> b -> c -> d, e waits for b and c."""
    builder.add("Placeholder", "a", dtype=FLOAT, shape=(None, 2))
    builder.add("Relu", "b", "a", T=FLOAT)
    builder.add("Split", "c", "b", T=FLOAT)
    builder.add("Neg", "d", "c:1", T=FLOAT)
    builder.add("Neg", "e", "a", "^b", "^c", T=FLOAT)
    return builder


def inputs(graph) -> dict[str, list[str]]:
    return {name: list(node.input) for name, node in graph.nodes.items()}


def test_no_change_is_the_same_graph(chain):
    graph = chain.graph
    changes = Changes(graph)
    changes.lead(TensorName("a"), TensorName("a"))
    assert not changes
    assert changes.applied() is graph


def test_readers_are_led_on_along_chains_and_control_edges_stay(chain):
    graph = chain.graph
    before = graph.graph_def.SerializeToString(deterministic=True)
    changes = Changes(graph)
    changes.lead(TensorName("c", 1), TensorName("b"))
    changes.lead(TensorName("b"), TensorName("a"))
    assert inputs(changes.applied()) == {
        "a": [],
        "b": ["a"],
        "c": ["a"],
        "d": ["a"],
        "e": ["a", "^b", "^c"],
    }
    assert graph.graph_def.SerializeToString(deterministic=True) == before


def test_circles_of_leads_end(chain):
    changes = Changes(chain.graph)
    changes.lead(TensorName("a"), TensorName("b"))
    changes.lead(TensorName("b"), TensorName("a"))
    changes.applied()


def test_who_waited_for_a_dropped_node_waits_for_what_it_stood_for(chain):
    changes = Changes(chain.graph)
    changes.drop("c", ["b"])
    changes.drop("b", ["a"])
    changes.lead(TensorName("c", 1), TensorName("a"))
    assert inputs(changes.applied()) == {"a": [], "d": ["a"], "e": ["a", "^a"]}


def test_nodes_are_put_in_place_or_at_the_end_with_new_names(chain):
    changes = Changes(chain.graph)
    assert changes.new_name("new") == "new"
    assert changes.new_name("b") == "b_1"
    changes.put(NodeDef(name="b", op="Abs", input=["a"]))
    changes.put(NodeDef(name="b_1", op="Abs", input=["b"]))
    assert changes.new_name("b") == "b_2"
    graph = changes.applied()
    assert list(graph.nodes) == ["a", "b", "c", "d", "e", "b_1"]
    assert graph.nodes["b"].op == "Abs"


def test_what_is_kept_is_found_under_its_name(chain):
    kept = (TensorName("b"), TensorName("c", 1))
    changes = Changes(chain.graph, kept)
    changes.lead(TensorName("b"), TensorName("a"))
    changes.drop("b", ["a"])
    changes.lead(TensorName("c", 1), TensorName("a"))
    graph = changes.applied()
    stand_in = graph.nodes["b"]
    assert (stand_in.op, list(stand_in.input), stand_in.attr["T"].type) == ("Identity", ["a"], 1)
    assert [changes.renamed(tensor) for tensor in kept] == [TensorName("b"), TensorName("a")]
