import numpy as np
import pytest

from checkpoints.errors import GraphError, UsageError
from exporters.constants import constant_value
from exporters.freezing import prepare
from exporters.names import TensorName
from exporters.rewrites.draft import Draft
from exporters.rewrites.settings import find_placeholder, fold_settings, parse_settings

FLOAT = np.dtype("float32")
BOOL = np.dtype("bool")


@pytest.mark.parametrize(
    ("given", "settings"),
    [
        ((), {}),
        (["is_training=false"], {"is_training": "false"}),
        (["a=1, b/c:0 = x=y ", "d=2"], {"a": "1", "b/c:0": "x=y", "d": "2"}),
        (["a=1", "a=1"], {"a": "1"}),
        ({"is_training": False, "keep_prob": 1.0}, {"is_training": "False", "keep_prob": "1.0"}),
    ],
)
def test_settings_are_names_and_values(given, settings):
    assert parse_settings(given) == settings


@pytest.mark.parametrize("text", ["is_training", "=false", "is_training=", "a=1,b"])
def test_what_sets_nothing_is_wrong_usage(text):
    with pytest.raises(UsageError, match="sets nothing"):
        parse_settings([text])


def test_two_values_for_one_name_are_wrong_usage():
    with pytest.raises(UsageError, match="a is set twice"):
        parse_settings(["a=1", "a=2"])


def use(builder, name, dtype="bool"):
    """Lets a placeholder do its work: a share drops, other numbers and bools choose."""
    if np.dtype(dtype).kind == "f":
        builder.add("RandomUniform", f"{name}/noise", dtype=np.dtype(dtype))
        builder.add("Add", f"{name}/sum", name, f"{name}/noise", T=np.dtype(dtype))
        builder.add("Floor", f"{name}/mask", f"{name}/sum", T=np.dtype(dtype))
        builder.add("Placeholder", f"{name}/data", dtype=np.dtype(dtype), shape=(None, 4))
        builder.add("Mul", f"{name}/out", f"{name}/data", f"{name}/mask", T=np.dtype(dtype))
        return
    builder.add("Cast", f"{name}/cast", name, SrcT=np.dtype(dtype), DstT=BOOL)
    builder.add("LogicalNot", f"{name}/not", f"{name}/cast")
    builder.add("Placeholder", f"{name}/data", dtype=FLOAT, shape=(None, 4))
    builder.add("Switch", f"{name}/switch", f"{name}/data", f"{name}/not", T=FLOAT)


def folded(builder, requested=None, **options) -> dict[str, object]:
    """Name -> what it became, of the placeholders that became constants."""
    graph = builder.graph
    before = {name for name, node in graph.nodes.items() if node.op.startswith("Placeholder")}
    requested = {find_placeholder(graph, name): text for name, text in (requested or {}).items()}
    draft = fold_settings(Draft(graph, ()), requested, **options).draft
    nodes = draft.graph.nodes
    return {
        name: constant_value(nodes[name]).item() for name in before if nodes[name].op == "Const"
    }


@pytest.mark.parametrize(
    ("name", "dtype", "value"),
    [
        ("is_training", "bool", False),
        ("net/is_training_1", "bool", False),
        ("training", "bool", False),
        ("isTrain", "bool", False),
        ("phase_train", "bool", False),
        ("train_phase", "bool", False),
        ("phase", "bool", False),
        ("train_mode", "bool", False),
        ("bn/is_training_ph", "bool", False),
        ("keras_learning_phase", "bool", False),
        ("is_training", "int32", 0),
        ("is_test", "bool", True),
        ("inference", "bool", True),
        ("keep_prob", "float32", 1.0),
        ("dropout/keep_prob_2", "float32", 1.0),
        ("dropout_keep_prob", "float32", 1.0),
        ("keep_probability", "float16", 1.0),
        ("dropout_rate", "float32", 0.0),
        ("drop_rate", "float64", 0.0),
    ],
)
def test_names_that_all_nets_use(builder, name, dtype, value):
    builder.add("Placeholder", name, dtype=np.dtype(dtype), shape=())
    assert folded(builder) == {}, "nothing is decided by it"
    use(builder, name, dtype)
    assert folded(builder) == {name: value}


@pytest.mark.parametrize(
    ("name", "dtype", "shape"),
    [
        ("x", "float32", (None, 4)),
        ("training", "float32", ()),
        ("keep_prob", "bool", ()),
        ("phase", "int32", (None,)),
        ("restrain", "bool", ()),
        ("flag", "bool", ()),
        ("dropout", "float32", ()),
        ("is_training", "bool", (None,)),
    ],
)
def test_data_and_words_that_may_mean_anything_stay(builder, name, dtype, shape):
    builder.add("Placeholder", name, dtype=np.dtype(dtype), shape=shape)
    use(builder, name, dtype)
    assert folded(builder) == {}


def test_a_bool_of_unknown_shape_is_a_setting_and_a_number_is_none(builder):
    builder.add("Placeholder", "is_training", dtype=BOOL)
    builder.add("Placeholder", "phase", dtype=np.dtype("int32"))
    use(builder, "is_training")
    use(builder, "phase", "int32")
    assert folded(builder) == {"is_training": False}


def test_defaults_that_are_constants_of_one_element(builder):
    builder.const("yes", True)
    builder.const("half", np.float32(0.5))
    builder.const("row", np.ones(3, np.float32))
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 3))
    builder.add("PlaceholderWithDefault", "flag", "yes", dtype=BOOL, shape=())
    builder.add("PlaceholderWithDefault", "is_training", "yes", dtype=BOOL, shape=())
    builder.add("PlaceholderWithDefault", "keep", "half", dtype=FLOAT, shape=())
    builder.add("PlaceholderWithDefault", "share", "half", dtype=FLOAT, shape=())
    builder.add("PlaceholderWithDefault", "temperature", "half", dtype=FLOAT, shape=())
    builder.add("RealDiv", "cooler", "x", "temperature", T=FLOAT)
    builder.add("PlaceholderWithDefault", "unused", "yes", dtype=BOOL, shape=())
    builder.add("PlaceholderWithDefault", "pictures", "row", dtype=FLOAT, shape=(3,))
    builder.add("PlaceholderWithDefault", "fed", "x", dtype=FLOAT, shape=(None, 3))
    for name, dtype in (("flag", BOOL), ("is_training", BOOL), ("keep", FLOAT), ("share", FLOAT)):
        use(builder, name, dtype)
    assert folded(builder) == {"flag": True, "is_training": False, "keep": 1.0, "share": 0.5}


def test_requested_values_take_the_placeholders_dtype(builder):
    builder.add("Placeholder", "flag", dtype=BOOL)
    builder.add("Placeholder", "count", dtype=np.dtype("int64"), shape=())
    builder.add("Placeholder", "rate", dtype=FLOAT)
    builder.add("Placeholder", "mode", dtype=np.dtype(object), shape=())
    builder.add("Placeholder", "is_training", dtype=BOOL)
    requested = {"flag": "True", "count:0": "-3", "import/rate": "0.25", "mode": "eval"}
    assert folded(builder, requested, known_names=False) == {
        "flag": True,
        "count": -3,
        "rate": 0.25,
        "mode": b"eval",
    }


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("bool", "maybe"), ("int32", "1.5"), ("int32", str(2**40)), ("float32", "x")],
)
def test_values_that_do_not_fit(builder, dtype, value):
    builder.add("Placeholder", "flag", dtype=np.dtype(dtype))
    with pytest.raises(UsageError, match=f"flag cannot be {value}"):
        folded(builder, {"flag": value})


def test_only_placeholders_of_one_value_are_set(dense_net):
    with pytest.raises(UsageError, match="logits is no placeholder"):
        find_placeholder(dense_net.graph, "logits")
    with pytest.raises(UsageError, match="x takes more than one value"):
        folded(dense_net, {"x": "1"})


def test_a_name_that_is_not_there_gets_near_ones(builder):
    builder.add("Placeholder", "is_training", dtype=BOOL)
    with pytest.raises(GraphError, match="no placeholder 'is_trainig'") as caught:
        find_placeholder(builder.graph, "is_trainig")
    assert caught.value.next_step == "--set is_training=VALUE"
    builder.graph_def.node[0].op = "Const"
    with pytest.raises(GraphError) as caught:
        find_placeholder(builder.graph, "is_trainig")
    assert "the graph has no placeholders" in caught.value.expected


def test_what_is_kept_as_an_input_is_no_setting(builder):
    builder.add("Placeholder", "keep_prob", dtype=FLOAT, shape=())
    use(builder, "keep_prob", "float32")
    draft = Draft(builder.graph, (), cuts=(TensorName("keep_prob"),))
    assert fold_settings(draft, {}).draft is draft


def test_what_was_set_is_said(builder):
    builder.add("Placeholder", "is_training", dtype=BOOL)
    builder.add("Placeholder", "flag", dtype=BOOL)
    use(builder, "is_training")
    settings = fold_settings(Draft(builder.graph, ()), {TensorName("flag"): "true"})
    assert settings.draft.said == (
        "flag is true, as requested.",
        "is_training is false, as everywhere in inference.",
    )
    assert settings.values[TensorName("flag")].dtype == BOOL


@pytest.mark.parametrize("name", ["temperature", "dropout_rate", "keep_prob"])
@pytest.mark.parametrize("has_default", [False, True])
def test_numbers_that_the_answer_is_scaled_by_stay_inputs(dense_net, name, has_default):
    if has_default:
        dense_net.const("one", np.float32(1))
        dense_net.add("PlaceholderWithDefault", name, "one", dtype=FLOAT, shape=())
    else:
        dense_net.add("Placeholder", name, dtype=FLOAT, shape=())
    dense_net.add("RealDiv", "scaled", "logits", name, T=FLOAT)
    frozen = prepare(dense_net.graph, dense_net.values, outputs=["scaled"])
    assert frozen.inputs == (TensorName("x"), TensorName(name))
    assert frozen.said == ()
