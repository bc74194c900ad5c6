"""Input pipelines of every kind are cut where they hand out pictures."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import exporters
from checkpoints.errors import GraphError
from exporters.graph import read_graph
from exporters.runtime import load_tensorflow

pytestmark = pytest.mark.tensorflow

FEATURES = 4
BATCH = 8


def dense(tf, x, name="head"):
    with tf.compat.v1.variable_scope(name):
        weights = tf.compat.v1.get_variable("weights", [x.shape[-1], 3])
        return tf.matmul(x, weights)


def record(tf):
    """One record: features [4] and a label, as an input pipeline would make them."""
    return tf.ones([FEATURES]), tf.constant(1)


def batch(tf):
    return tf.compat.v1.train.batch(list(record(tf)), BATCH)


def smaller_last_batch(tf):
    return tf.compat.v1.train.batch(list(record(tf)), BATCH, allow_smaller_final_batch=True)


def shuffle_batch(tf):
    return tf.compat.v1.train.shuffle_batch(list(record(tf)), BATCH, 20 * BATCH, 10)


def batch_join(tf):
    return tf.compat.v1.train.batch_join([list(record(tf)) for _ in range(2)], BATCH)


def shuffle_batch_join(tf):
    records = [list(record(tf)) for _ in range(2)]
    return tf.compat.v1.train.shuffle_batch_join(records, BATCH, 20 * BATCH, 10)


def padded_batch(tf):
    return tf.compat.v1.train.batch(list(record(tf)), BATCH, dynamic_pad=True)


def prefetch_queue(tf):
    from finetune.slim import load_slim

    load_slim()
    from tf_slim.data import prefetch_queue as queues

    return queues.prefetch_queue(list(shuffle_batch(tf)), capacity=2).dequeue()


def dequeue_up_to(tf):
    queue = tf.queue.FIFOQueue(32, [tf.float32, tf.int32], [[FEATURES], []])
    tf.compat.v1.train.add_queue_runner(
        tf.compat.v1.train.QueueRunner(queue, [queue.enqueue(record(tf))])
    )
    return queue.dequeue_up_to(BATCH)


def slice_producer(tf):
    data = tf.zeros([20, FEATURES]), tf.zeros([20], tf.int32)
    example = tf.compat.v1.train.slice_input_producer(list(data))
    return tf.compat.v1.train.batch(example, BATCH)


def one_shot_iterator(tf):
    data = tf.data.Dataset.from_tensors(record(tf)).repeat().batch(BATCH)
    return tf.compat.v1.data.make_one_shot_iterator(data).get_next()


def initializable_iterator_of_names(tf):
    data = tf.data.Dataset.from_tensors(dict(zip("zy", record(tf), strict=True))).repeat()
    data = data.batch(BATCH, drop_remainder=True)
    found = tf.compat.v1.data.make_initializable_iterator(data).get_next()
    return found["z"], found["y"]


def feedable_iterator(tf):
    v1 = tf.compat.v1
    handle = v1.placeholder(tf.string, [], "handle")
    data = tf.data.Dataset.from_tensors(record(tf)).repeat().batch(BATCH)
    types, shapes = v1.data.get_output_types(data), v1.data.get_output_shapes(data)
    return v1.data.Iterator.from_string_handle(handle, types, shapes).get_next()


def default_of_a_placeholder(tf):
    features, labels = one_shot_iterator(tf)
    return tf.compat.v1.placeholder_with_default(features, [None, FEATURES], "features"), labels


PIPELINES = (
    batch,
    smaller_last_batch,
    shuffle_batch,
    batch_join,
    shuffle_batch_join,
    padded_batch,
    prefetch_queue,
    dequeue_up_to,
    slice_producer,
    one_shot_iterator,
    initializable_iterator_of_names,
    feedable_iterator,
    default_of_a_placeholder,
)


def built(net):
    """The net with loss and optimiser, as a function that save_graph takes."""

    def build(tf):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            v1 = tf.compat.v1
            logits, labels = net(tf)
            loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
            v1.train.AdamOptimizer().minimize(loss, v1.train.get_or_create_global_step())

    return build


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda pipeline: pipeline.__name__)
def test_cut_without_being_told(save_graph, run_frozen, tmp_path, pipeline):
    def net(tf):
        features, labels = pipeline(tf)
        logits = dense(tf, features)
        tf.nn.softmax(logits, name="probs")
        return logits, labels

    saved = save_graph(built(net), {}, [])
    done = exporters.convert(saved.prefix, tmp_path / "m.pb")
    assert [output.name for output in done.outputs] == ["probs:0"]
    assert len(done.inputs) == 1
    assert (done.inputs[0].dtype, done.inputs[0].shape) == ("float32", (None, FEATURES))
    kinds = {node.op for node in read_graph(done.path).nodes.values()}
    assert kinds == {"Placeholder", "Const", "Identity", "MatMul", "Softmax"}
    name = done.inputs[0].name
    for size in (3, 11):
        probs = run_frozen(done.path, {name: np.ones((size, FEATURES))}, ["probs:0"])["probs:0"]
        np.testing.assert_allclose(probs.sum(axis=1), np.ones(size), rtol=1e-6)
    assert any("A placeholder stands for" in note or "no default" in note for note in done.notes)


def records(tf):
    """A CSV of the notes' kind: columns of numbers, one a text, and a label, read in batches."""
    v1 = tf.compat.v1
    files = v1.train.string_input_producer(["heart.csv"], num_epochs=1, shuffle=True)
    reader = v1.TextLineReader(skip_header_lines=1)
    _, lines = reader.read_up_to(files, BATCH)
    defaults = [[0.0], [0.0], ["Present"], [0.0], [0]]
    first, second, history, third, label = tf.io.decode_csv(lines, defaults)
    history = tf.cast(tf.equal(history, "Present"), tf.float32)
    return tf.stack([first, second, history, third], axis=1), label


def test_records_read_many_at_a_time_are_cut_where_they_are_numbers(
    save_graph, run_frozen, tmp_path
):
    def net(tf):
        features, labels = records(tf)
        logits = dense(tf, (features - 1.0) / 2.0)
        tf.nn.softmax(logits, name="probs")
        return logits, labels

    saved = save_graph(built(net), {}, [])
    done = exporters.convert(saved.prefix, tmp_path / "m.pb")
    assert done.inputs[0].as_json() == {"name": "stack:0", "dtype": "float32", "shape": [None, 4]}
    probs = run_frozen(done.path, {"stack:0": np.ones((3, 4))}, ["probs:0"])["probs:0"]
    np.testing.assert_allclose(probs.sum(axis=1), np.ones(3), rtol=1e-6)


def test_a_picture_read_alone_is_refused_with_the_places_to_cut(save_graph, tmp_path):
    def net(tf):
        v1 = tf.compat.v1
        files = v1.train.string_input_producer(["a.png", "b.png"])
        _, data = v1.WholeFileReader().read(files)
        picture = tf.image.decode_png(data, channels=1, name="decoded")
        picture = tf.reshape(tf.cast(picture, tf.float32) / 255.0, [1, 6], name="pictures")
        logits = dense(tf, picture)
        tf.nn.softmax(logits, name="probs")
        return logits, tf.zeros([1], tf.int64)

    saved = save_graph(built(net), {}, [])
    with pytest.raises(GraphError, match="where its pictures are is not clear") as caught:
        exporters.convert(saved.prefix, tmp_path / "m.pb", outputs=["probs"])
    assert "ReaderReadV2:1 (ReaderReadV2) string []" in caught.value.message
    assert "decoded (DecodePng) uint8 [?, ?, 1]" in caught.value.message
    assert caught.value.next_step == "Choose one: --inputs pictures"
    done = exporters.convert(
        saved.prefix, tmp_path / "m.pb", outputs=["probs"], inputs=["pictures"]
    )
    assert done.inputs[0].shape == (None, 6)


def test_several_needed_tensors_are_refused_and_cut_on_request(save_graph, tmp_path):
    def net(tf):
        data = tf.data.Dataset.from_tensors((tf.zeros([4]), tf.zeros([1]), 1)).repeat()
        features, age, labels = tf.compat.v1.data.make_one_shot_iterator(
            data.batch(BATCH)
        ).get_next()
        logits = dense(tf, tf.concat([features, age], 1))
        tf.nn.softmax(logits, name="probs")
        return logits, labels

    saved = save_graph(built(net), {}, [])
    with pytest.raises(GraphError, match="need several tensors of an input pipeline") as caught:
        exporters.convert(saved.prefix, tmp_path / "m.pb")
    assert "IteratorGetNext:1 (IteratorGetNext) float32 [?, 1]" in caught.value.message
    assert caught.value.next_step == "--inputs IteratorGetNext,IteratorGetNext:1"
    inputs = caught.value.next_step.removeprefix("--inputs ").split(",")
    done = exporters.convert(saved.prefix, tmp_path / "m.pb", inputs=inputs)
    assert [endpoint.shape for endpoint in done.inputs] == [(None, 4), (None, 1)]


def test_one_record_at_a_time_has_no_batch(save_graph, tmp_path):
    def net(tf):
        data = tf.data.Dataset.from_tensors(record(tf)).repeat()
        features, label = tf.compat.v1.data.make_one_shot_iterator(data).get_next()
        logits = dense(tf, tf.expand_dims(features, 0))
        tf.nn.softmax(logits, name="probs")
        return logits, tf.expand_dims(label, 0)

    saved = save_graph(built(net), {}, [])
    with pytest.raises(GraphError, match="fits one batch size only") as caught:
        exporters.convert(saved.prefix, tmp_path / "m.pb")
    assert "head/MatMul (MatMul) multiplies [1, batch] with [4, 3]" in caught.value.message
    assert "--inputs" in caught.value.next_step
    done = exporters.convert(saved.prefix, tmp_path / "m.pb", inputs=["ExpandDims"])
    assert done.inputs[0].shape == (None, FEATURES)


def test_training_may_be_kept(save_graph, tmp_path):
    def net(tf):
        features, labels = one_shot_iterator(tf)
        return dense(tf, features), labels

    saved = save_graph(built(net), {}, [])
    done = exporters.convert(saved.prefix, tmp_path / "m.pb", keep_training=True)
    assert "IteratorGetNext" in {node.op for node in read_graph(done.path).nodes.values()}
    assert done.inputs == ()
    assert done.verification.mode == "structure"


def test_no_device_and_no_colocation_is_left_anywhere(tmp_path):
    tf = load_tensorflow()
    v1 = tf.compat.v1

    @tf.function
    def halve(value):
        with tf.device("/device:GPU:0"):
            return value / 2.0

    def net(tf):
        with tf.device("/device:GPU:0"):
            features, labels = batch(tf)
            return dense(tf, halve(features)), labels

    with tf.Graph().as_default():
        built(net)(tf)
        config = v1.ConfigProto(allow_soft_placement=True)
        with v1.Session(config=config) as session:
            session.run(v1.global_variables_initializer())
            v1.train.Saver().save(session, str(tmp_path / "model.ckpt"))
    before = read_graph(tmp_path / "model.ckpt.meta")
    assert any(node.device for node in before.nodes.values())
    graph = read_graph(exporters.convert(tmp_path / "model.ckpt", tmp_path / "m.pb").path)
    (function,) = graph.functions.values()
    nodes = [*graph.nodes.values(), *function.node_def]
    assert {node.device for node in nodes} == {""}
    assert not any("_class" in node.attr for node in nodes)


@pytest.mark.parametrize("pipeline", [batch, initializable_iterator_of_names, smaller_last_batch])
def test_a_graph_without_shapes(save_graph, run_frozen, tmp_path, pipeline):
    """A .pbtxt that tf.io.write_graph wrote says nothing of shapes, and defines no ops."""
    from finetune.slim import load_slim

    slim = load_slim()

    def net(tf):
        features, labels = pipeline(tf)
        logits = slim.fully_connected(
            features,
            3,
            normalizer_fn=slim.batch_norm,
            normalizer_params={"is_training": True},
            scope="head",
        )
        logits = tf.nn.dropout(logits, 0.3)
        slim.softmax(logits, scope="Predictions")
        tf.io.write_graph(logits.graph, str(tmp_path), "graph.pbtxt")
        return logits, labels

    saved = save_graph(built(net), {}, [])
    options = {"graph": tmp_path / "graph.pbtxt", "outputs": ["Predictions/Reshape_1"]}
    done = exporters.convert(saved.prefix, tmp_path / "m.pb", **options)
    assert done.inputs[0].shape == (None, FEATURES)
    assert done.verification.passed
    name = done.inputs[0].name
    for size in (1, 5):
        feeds = {name: np.ones((size, FEATURES))}
        output = "Predictions/Reshape_1:0"
        assert run_frozen(done.path, feeds, [output])[output].shape == (size, 3)
