"""SavedModels and .metas that TensorFlow loads, and SavedModels that it wrote."""

from __future__ import annotations

import numpy as np
import pytest

import checkpoints
import exporters
from checkpoints.errors import GraphError, OutputExistsError, UnsupportedError, UsageError
from exporters.graph import read_graph
from exporters.metadata import Metadata, read_metadata
from exporters.options import ModelOptions
from exporters.runtime import load_tensorflow

pytestmark = pytest.mark.tensorflow

FEEDS = {"x:0": np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)}
KEPT = ModelOptions(keep_variables=True)


def dense(tf):
    v1 = tf.compat.v1
    x = v1.placeholder(tf.float32, [None, 4], "x")
    weights = v1.get_variable("fc/weights", [4, 3])
    steps = v1.get_variable("steps", [], tf.int32, trainable=False)
    average = v1.get_variable("moving_mean", [3], trainable=False)
    logits = tf.matmul(x, weights) - average * tf.cast(steps, tf.float32)
    tf.nn.softmax(logits, name="probs")


@pytest.fixture(params=[False, True], ids=["reference", "resource"])
def saved(request, save_graph):
    return save_graph(dense, FEEDS, ["probs:0"], resource=request.param)


@pytest.mark.parametrize("options", [ModelOptions(), KEPT], ids=["frozen", "kept"])
def test_both_loaders_of_tensorflow(request, saved, tmp_path, options):
    tf = load_tensorflow()
    v1 = tf.compat.v1
    labels = ["花", "b", "c"]
    done = exporters.convert(
        saved.prefix, f"{tmp_path}/m/", options=options, labels=labels, verify="run"
    )
    assert (done.form, done.verification.max_abs) == ("saved-model", 0.0)
    path = str(tmp_path / "m")
    expected = saved.answers["probs:0"]

    loaded = tf.saved_model.load(path)
    answers = loaded.signatures["serving_default"](x=tf.constant(FEEDS["x:0"]))
    np.testing.assert_allclose(answers["probabilities"].numpy(), expected, rtol=1e-6)
    # TensorFlow 2 restores reference variables too, but does not list them.
    is_listed = options is KEPT and "resource" in request.node.name
    assert len(loaded.variables) == (3 if is_listed else 0)

    with tf.Graph().as_default(), v1.Session() as session:
        meta = v1.saved_model.load(session, ["serve"], path)
        signature = meta.signature_def["serving_default"]
        assert signature.method_name == "tensorflow/serving/predict"
        assert signature.inputs["x"].dtype == tf.float32.as_datatype_enum
        shape = signature.outputs["probabilities"].tensor_shape
        assert [dimension.size for dimension in shape.dim] == [-1, 3]
        again = session.run(signature.outputs["probabilities"].name, FEEDS)
        np.testing.assert_allclose(again, expected, rtol=1e-6)
        trainable = {variable.op.name for variable in v1.trainable_variables()}
    assert trainable == ({"fc/weights"} if options is KEPT else set())
    assert read_metadata(read_graph(path)).classes == tuple(labels)

    there_and_back = exporters.convert(path, tmp_path / "again.pb")
    assert [output.name for output in there_and_back.outputs] == ["probs:0"]
    assert there_and_back.metadata.classes == tuple(labels)
    if options is not KEPT:
        assert there_and_back.path.read_bytes() == frozen_bytes(saved, tmp_path, labels)


def frozen_bytes(saved, tmp_path, labels):
    return exporters.convert(saved.prefix, tmp_path / "f.pb", labels=labels).path.read_bytes()


def test_a_meta_for_the_checkpoint_it_came_from(saved, tmp_path):
    tf = load_tensorflow()
    v1 = tf.compat.v1
    done = exporters.convert(saved.prefix, tmp_path / "inference.meta")
    assert done.verification.mode == "structure"
    with tf.Graph().as_default():
        saver = v1.train.import_meta_graph(str(done.path))
        assert {v.op.name for v in v1.trainable_variables()} == {"fc/weights"}
        assert {v.op.name for v in v1.global_variables()} == {"fc/weights", "steps", "moving_mean"}
        with v1.Session() as session:
            saver.restore(session, str(saved.prefix))
            answers = session.run("probs:0", FEEDS)
    np.testing.assert_array_equal(answers, saved.answers["probs:0"])


def test_averages_are_restored_in_place_of_variables(save_graph, tmp_path):
    tf = load_tensorflow()
    v1 = tf.compat.v1

    def build(tf):
        x = v1.placeholder(tf.float32, [None, 1], "x")
        w = v1.get_variable("w", [1, 1])
        tf.matmul(x, w, name="out")
        tf.train.ExponentialMovingAverage(0.9).apply([w])

    feeds = {"x:0": np.ones((1, 1), np.float32)}
    saved = save_graph(build, feeds, ["out:0"], resource=True)
    with checkpoints.open(saved.prefix) as values:
        raw = values["w"].item()
        average = values["w/ExponentialMovingAverage"].item()
    assert raw != average
    for weights, expected in (("raw", raw), ("ema", average), ("auto", raw)):
        selection = checkpoints.Selection(weights=weights)
        done = exporters.convert(
            saved.prefix, tmp_path / f"{weights}.pb", outputs=["out"], selection=selection
        )
        with exporters.GraphRunner(done.path) as runner:
            assert runner.run(feeds["x:0"])[0].item() == pytest.approx(expected)
        said = "Weights: raw" if weights == "auto" else f"Weights: {weights}"
        assert any(note.startswith(said) for note in done.notes) or weights == "raw"
        meta = exporters.convert(
            saved.prefix, tmp_path / f"{weights}.meta", outputs=["out"], selection=selection
        )
        with tf.Graph().as_default(), v1.Session() as session:
            v1.train.import_meta_graph(str(meta.path)).restore(session, str(saved.prefix))
            assert session.run("out:0", feeds).item() == pytest.approx(expected)


def test_a_vocabulary_table_is_refused_with_its_file(tmp_path):
    tf = load_tensorflow()
    v1 = tf.compat.v1
    vocabulary = tmp_path / "words.txt"
    vocabulary.write_text("cat\ndog\n")
    with tf.Graph().as_default():
        words = v1.placeholder(tf.string, [None], "words")
        table = tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer(
                str(vocabulary),
                tf.string,
                tf.lookup.TextFileIndex.WHOLE_LINE,
                tf.int64,
                tf.lookup.TextFileIndex.LINE_NUMBER,
            ),
            -1,
        )
        weights = v1.get_variable("w", [3, 2])
        rows = tf.gather(weights, table.lookup(words) + 1, name="rows")
        with v1.Session() as session:
            session.run([v1.global_variables_initializer(), v1.tables_initializer()])
            v1.saved_model.simple_save(
                session,
                str(tmp_path / "model"),
                {"words": words},
                {"rows": rows},
                legacy_init_op=v1.tables_initializer(),
            )
            expected = session.run(rows, {words: ["dog", "bird"]})
            index = next(
                op.name for op in session.graph.get_operations() if op.type == "LookupTableFindV2"
            )
            found = session.run(f"{index}:0", {words: ["dog", "bird"]})
    for target in ("m.pb", "m/", "m.meta"):
        for keep_training in (False, True):
            with pytest.raises(UnsupportedError, match=r"looks things up in tables") as caught:
                exporters.convert(
                    tmp_path / "model", f"{tmp_path}/{target}", keep_training=keep_training
                )
            assert "assets/words.txt" in caught.value.message
            assert "HashTableV2" in caught.value.message
    assert not (tmp_path / "m.pb").exists() and not (tmp_path / "m").exists()
    done = exporters.convert(
        tmp_path / "model", tmp_path / "m.pb", inputs=[f"{index}=?"], verify="structure"
    )
    with exporters.GraphRunner(done.path) as runner:
        np.testing.assert_array_equal(runner.run(found)[0], expected)


def test_a_model_with_an_asset_that_no_answer_needs(shared, tmp_path):
    source = shared / "data/models/half_plus_two_saved_model"
    done = exporters.convert(source, f"{tmp_path}/m/", inputs=["x=?x1"])
    tf = load_tensorflow()
    answers = tf.saved_model.load(str(tmp_path / "m")).signatures["serving_default"](
        x=tf.constant([[1.0], [5.0]])
    )
    np.testing.assert_array_equal(answers["y"].numpy(), [[2.5], [4.5]])
    assert [endpoint.name for endpoint in done.outputs] == ["y:0"]


@pytest.mark.parametrize("kind", ["module", "keras"])
def test_saved_models_of_tensorflow_2(tmp_path, run_frozen, kind):
    tf = load_tensorflow()
    x = FEEDS["x:0"]
    if kind == "module":

        class Net(tf.Module):
            def __init__(self):
                super().__init__()
                self.w = tf.Variable(np.random.default_rng(0).normal(size=(4, 2)), dtype="float32")

            @tf.function(input_signature=[tf.TensorSpec([None, 4])])
            def __call__(self, inputs):
                return {"scores": tf.matmul(inputs, self.w)}

        net = Net()
        expected = net(x)["scores"].numpy()
        tf.saved_model.save(net, str(tmp_path / "model"), {"serving_default": net.__call__})
    else:
        import keras

        net = keras.Sequential(
            [keras.Input((4,)), keras.layers.Dense(3), keras.layers.BatchNormalization()]
        )
        expected = net(x, training=False).numpy()
        net.export(str(tmp_path / "model"), verbose=False)
    done = exporters.convert(tmp_path / "model", tmp_path / "m.pb")
    assert done.verification.mode == "run"
    name = done.outputs[0].name
    ours = run_frozen(done.path, {done.inputs[0].name: x}, [name])[name]
    np.testing.assert_allclose(ours, expected, rtol=1e-6)
    thawed = exporters.thaw(done.path, tmp_path / "t.ckpt")
    assert len(thawed.variables) == (1 if kind == "module" else 6)
    assert len(thawed.trainable) == (1 if kind == "module" else 4)


def test_what_is_refused(saved, tmp_path):
    frozen = exporters.convert(saved.prefix, tmp_path / "m.pb").path
    with pytest.raises(UsageError, match="no variables to keep"):
        exporters.convert(frozen, f"{tmp_path}/k/", options=KEPT)
    with pytest.raises(UsageError, match="--optimize changes a frozen graph"):
        exporters.convert(
            saved.prefix,
            tmp_path / "k.pb",
            options=ModelOptions(keep_variables=True, optimize=True),
        )
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/one.jpg").write_bytes(b"mine")
    with pytest.raises(OutputExistsError, match="is no SavedModel, so it is not replaced"):
        exporters.convert(saved.prefix, f"{tmp_path}/photos/", overwrite=True)
    assert (tmp_path / "photos/one.jpg").read_bytes() == b"mine"
    exporters.convert(saved.prefix, f"{tmp_path}/m/")
    with pytest.raises(OutputExistsError, match="already there"):
        exporters.convert(saved.prefix, f"{tmp_path}/m/")
    exporters.convert(saved.prefix, f"{tmp_path}/m/", overwrite=True)
    with pytest.raises(GraphError, match="no node 'nothing'"):
        exporters.convert(saved.prefix, f"{tmp_path}/m/", overwrite=True, outputs=["nothing"])
    assert (tmp_path / "m/saved_model.pb").is_file()


def test_metadata_of_a_frozen_meta(saved, tmp_path):
    frozen = exporters.convert(saved.prefix, tmp_path / "m.pb", metadata=Metadata(net="mine")).path
    done = exporters.convert(frozen, tmp_path / "m.meta")
    graph = read_graph(done.path)
    assert graph.kind == "meta-graph"
    assert read_metadata(graph).net == "mine"
    assert graph.signatures["serving_default"].outputs["probabilities"].name == "probs:0"
