import numpy as np
import pytest

from checkpoints.errors import GraphError
from exporters.graph import read_graph
from exporters.inspecting.guess import guess_outputs
from exporters.names import TensorName

FLOAT = np.dtype("float32")


@pytest.mark.parametrize(
    ("file", "output"),
    [
        ("mnist_mlp/model.ckpt-1999.meta", "softmax_linear/add"),
        ("mnist_mlp/mnist_frozen.pb", "softmax_linear/add"),
        ("lenet_300_100_v1/model.ckpt.meta", "add"),
        ("half_plus_two_v1_sharded/export.meta", "Identity"),
        ("mobilenet_v1_1.0_224/frozen.pb", "MobilenetV1/Predictions/Reshape"),
        ("fc_layers/frozen.pb", "output"),
    ],
)
def test_real_files(shared, file, output):
    assert guess_outputs(read_graph(shared / "data/models" / file)).output == TensorName(output)


def test_bookkeeping_is_no_output(dense_net):
    dense_net.variable("global_step", np.int64(3))
    dense_net.const("one", np.int64(1))
    dense_net.add("AssignAdd", "step", "global_step", "one")
    dense_net.add("Mul", "moving/delta", "logits", "fc/biases/read", T=FLOAT)
    dense_net.add("AssignSub", "moving/update", "fc/biases", "moving/delta")
    dense_net.add("SaveV2", "save/SaveV2", "fc/weights", "fc/biases")
    dense_net.add("Mul", "gradients/probs_grad/mul", "probs", "logits", T=FLOAT)
    assert guess_outputs(dense_net.graph).output == TensorName("probs")


def test_a_sink_that_only_summaries_read_is_taken_where_there_is_no_other(dense_net):
    dense_net.const("tag", "histogram")
    dense_net.add("HistogramSummary", "summary", "tag", "probs")
    assert guess_outputs(dense_net.graph).output == TensorName("probs")


def test_the_class_and_the_softmax_of_one_head_are_one(dense_net):
    dense_net.const("axis", np.int32(1))
    dense_net.add("ArgMax", "class", "logits", "axis", T=FLOAT)
    guess = guess_outputs(dense_net.graph)
    assert (guess.output, guess.others) == (TensorName("probs"), ())


def test_of_a_softmax_and_bare_logits_the_softmax_is_taken_and_the_other_named(dense_net):
    read = dense_net.variable("aux/weights", np.zeros((4, 4), np.float32))
    dense_net.add("MatMul", "aux/logits", "x", read, T=FLOAT)
    guess = guess_outputs(dense_net.graph)
    assert guess.output == TensorName("probs")
    assert guess.others == (TensorName("aux/logits"),)


def test_of_a_main_and_an_auxiliary_head_the_main_one_is_taken(dense_net):
    read = dense_net.variable("AuxLogits/weights", np.zeros((4, 4), np.float32))
    dense_net.add("MatMul", "AuxLogits/logits", "x", read, T=FLOAT)
    dense_net.add("Softmax", "AuxLogits/probs", "AuxLogits/logits", T=FLOAT)
    dense_net.add("Shape", "shape", "logits", T=FLOAT)
    dense_net.add("Reshape", "Predictions/Reshape_1", "probs", "shape", T=FLOAT)
    dense_net.add("Identity", "probabilities", "Predictions/Reshape_1", T=FLOAT)
    guess = guess_outputs(dense_net.graph)
    assert guess.output == TensorName("probabilities")
    assert guess.others == (TensorName("AuxLogits/probs"),)
    assert guess.reason == "nothing reads it, and the others are auxiliary"


def test_a_tie_is_refused_with_the_list(dense_net):
    dense_net.add("Sigmoid", "second", "matmul", T=FLOAT)
    with pytest.raises(GraphError, match="several tensors") as caught:
        guess_outputs(dense_net.graph)
    assert "probs:0\n  second:0" in caught.value.message
    assert caught.value.next_step == "Say which: --outputs probs"


def test_a_graph_without_answers_says_so(builder):
    builder.variable("w", np.zeros(3, np.float32))
    with pytest.raises(GraphError, match="no tensor that could be the output"):
        guess_outputs(builder.graph)


def test_settings_are_no_inputs(dense_net):
    dense_net.add("Placeholder", "is_training", dtype=np.dtype("bool"))
    dense_net.add("Placeholder", "keep_prob", dtype=FLOAT, shape=())
    dense_net.add("Mul", "scaled_weights", "fc/weights/read", "keep_prob", T=FLOAT)
    assert guess_outputs(dense_net.graph).output == TensorName("probs")


def test_loops_end(builder):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 4))
    read = builder.variable("w", np.zeros((4, 4), np.float32))
    builder.add("Enter", "enter", "x", T=FLOAT)
    builder.add("Merge", "merge", "enter", "next", T=FLOAT)
    builder.add("MatMul", "matmul", "merge", read, T=FLOAT)
    builder.add("NextIteration", "next", "matmul", T=FLOAT)
    builder.add("Exit", "exit", "merge", T=FLOAT)
    assert guess_outputs(builder.graph).output == TensorName("exit")


@pytest.mark.tensorflow
class TestAgainstTensorFlow:
    """Training graphs as people write them; what they call their predictions is found."""

    @pytest.fixture
    def guess(self, save_graph):
        def run(build, **feeds):
            saved = save_graph(build, feeds, ["x:0"] if "x:0" in feeds else [])
            return guess_outputs(read_graph(f"{saved.prefix}.meta"))

        return run

    @staticmethod
    def dense(tf, x, units, name):
        with tf.compat.v1.variable_scope(name):
            weights = tf.compat.v1.get_variable("weights", [x.shape[-1], units])
            biases = tf.compat.v1.get_variable("biases", [units])
        return tf.nn.bias_add(tf.matmul(x, weights), biases, name=f"{name}/out")

    def test_sparse_labels_and_a_softmax_for_show(self, guess):
        def build(tf):
            v1 = tf.compat.v1
            x, y = v1.placeholder(tf.float32, [None, 4]), v1.placeholder(tf.int64, [None])
            logits = self.dense(tf, self.dense(tf, x, 5, "body"), 3, "head")
            probs = tf.nn.softmax(logits, name="predictions")
            v1.summary.histogram("predictions", probs)
            loss = v1.losses.sparse_softmax_cross_entropy(y, logits)
            hits = tf.equal(tf.argmax(probs, 1), y)
            tf.reduce_mean(tf.cast(hits, tf.float32), name="accuracy")
            v1.train.AdamOptimizer().minimize(loss, v1.train.get_or_create_global_step())

        assert guess(build).output == TensorName("predictions")

    def test_a_cross_entropy_written_by_hand(self, guess):
        def build(tf):
            v1 = tf.compat.v1
            x, y = v1.placeholder(tf.float32, [None, 4]), v1.placeholder(tf.float32, [None, 3])
            probs = tf.nn.softmax(self.dense(tf, x, 3, "head"), name="probs")
            clipped = tf.clip_by_value(probs, 1e-10, 1.0)
            loss = -tf.reduce_mean(tf.reduce_sum(y * tf.math.log(clipped), 1))
            v1.train.GradientDescentOptimizer(0.1).minimize(loss)

        assert guess(build).output == TensorName("probs")

    def test_several_labels_a_picture(self, guess):
        def build(tf):
            v1 = tf.compat.v1
            x, y = v1.placeholder(tf.float32, [None, 4]), v1.placeholder(tf.float32, [None, 3])
            logits = self.dense(tf, x, 3, "head")
            tf.nn.sigmoid(logits, name="scores")
            loss = v1.losses.sigmoid_cross_entropy(y, logits)
            v1.train.RMSPropOptimizer(0.1).minimize(loss)

        assert guess(build).output == TensorName("scores")

    def test_a_regression(self, guess):
        def build(tf):
            v1 = tf.compat.v1
            x, y = v1.placeholder(tf.float32, [None, 4]), v1.placeholder(tf.float32, [None, 1])
            value = self.dense(tf, x, 1, "value")
            loss = tf.reduce_mean(tf.math.squared_difference(value, y))
            v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)

        assert guess(build).output == TensorName("value/out")

    def test_main_and_auxiliary_head_on_a_tf_data_iterator(self, guess):
        def build(tf):
            v1 = tf.compat.v1
            data = tf.data.Dataset.from_tensors((tf.zeros([4]), 1)).repeat().batch(2)
            x, y = v1.data.make_one_shot_iterator(data).get_next()
            body = self.dense(tf, x, 5, "body")
            aux = self.dense(tf, body, 3, "aux")
            logits = self.dense(tf, tf.nn.relu(self.dense(tf, body, 5, "more")), 3, "main")
            one_hot = tf.one_hot(y, 3)
            v1.losses.softmax_cross_entropy(one_hot, aux, weights=0.4)
            v1.losses.softmax_cross_entropy(one_hot, logits)
            v1.train.AdamOptimizer().minimize(v1.losses.get_total_loss())

        found = guess(build)
        assert found.output == TensorName("main/out")
        assert found.others == (TensorName("aux/out"),)

    def test_two_inputs_that_join_are_no_labels(self, guess):
        def build(tf):
            v1 = tf.compat.v1
            x, age = v1.placeholder(tf.float32, [None, 4]), v1.placeholder(tf.float32, [None, 1])
            joined = tf.concat([self.dense(tf, x, 3, "body") * age, age], 1)
            tf.nn.softmax(self.dense(tf, joined, 2, "head"), name="probs")

        assert guess(build).output == TensorName("probs")
