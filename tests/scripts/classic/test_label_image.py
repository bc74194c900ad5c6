"""label_image: the lines of the tutorial's script, and the same numbers."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from PIL import Image

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def graph(tmp_path, colour_model):
    return colour_model.write_pb(tmp_path / "graph.pb")


@pytest.fixture
def labels(tmp_path):
    path = tmp_path / "labels.txt"
    path.write_text("blue one\ngreen\nred\n")
    return path


def picture(path, kind):
    pixels = np.random.default_rng(1).integers(0, 256, (37, 50, 3), np.uint8)
    pixels[:, :, 0] //= 4
    Image.fromarray(pixels).save(path, kind)
    return path


def run(slimtune, graph, image, labels, *more):
    return slimtune(
        *("classic", "label_image", f"--graph={graph}", f"--image={image}", f"--labels={labels}"),
        *("--output_layer=probabilities", "--input_height=16", "--input_width=16", *more),
    )


def tutorial(tf, graph, image, labels, mean=0, std=255):
    """What TensorFlow's example script does, step by step."""
    v1 = tf.compat.v1
    decode = tf.io.decode_png if image.suffix == ".png" else tf.io.decode_jpeg
    with tf.Graph().as_default() as whole, v1.Session(graph=whole) as session:
        pixels = tf.cast(decode(image.read_bytes(), channels=3), tf.float32)[None]
        resized = v1.image.resize_bilinear(pixels, [16, 16])
        value = session.run(tf.divide(tf.subtract(resized, [mean]), [std]))
        tf.import_graph_def(v1.GraphDef.FromString(graph.read_bytes()))
        results = np.squeeze(session.run("import/probabilities:0", {"import/input:0": value}))
    names = [line.rstrip() for line in labels.read_text().splitlines()]
    out = io.StringIO()
    for place in results.argsort()[-5:][::-1]:
        print(names[place], results[place], file=out)
    return out.getvalue()


@pytest.mark.parametrize("kind", ["png", "jpeg"])
@pytest.mark.parametrize("norm", [(0, 255), (128, 127.5)])
def test_it_prints_what_the_tutorials_script_prints(
    tf, slimtune, graph, labels, tmp_path, kind, norm
):
    image = picture(tmp_path / f"p.{kind}", kind)
    code, out, err = run(
        *(slimtune, graph, image, labels),
        *(f"--input_mean={norm[0]}", f"--input_std={norm[1]}"),
    )
    assert code == 0, err
    assert out == tutorial(tf, graph, image, labels, *norm)
    assert len(out.splitlines()) == 3 and "blue one 0." in out
    assert err == f"The same with slimtune:\n  slimtune predict {graph} {image}\n"


def test_a_graph_that_takes_encoded_pictures_gets_the_file(tf, slimtune, labels, tmp_path):
    image, graph = picture(tmp_path / "p.jpg", "jpeg"), tmp_path / "graph.pb"
    with tf.Graph().as_default() as whole:
        encoded = tf.compat.v1.placeholder(tf.string, [], name="DecodeJpeg/contents")
        means = tf.reduce_mean(tf.cast(tf.io.decode_jpeg(encoded, channels=3), tf.float32), [0, 1])
        tf.nn.softmax(means[None] / 100, name="final_result")
        graph.write_bytes(whole.as_graph_def().SerializeToString())
    code, out, err = slimtune(
        *("classic", "label_image", f"--graph={graph}", f"--image={image}", f"--labels={labels}"),
        *("--input_layer=DecodeJpeg/contents:0", "--output_layer=final_result:0", "--json"),
    )
    assert code == 0, err
    means = tf.reduce_mean(tf.cast(tf.io.decode_jpeg(image.read_bytes()), tf.float32), [0, 1])
    expected = tf.nn.softmax(means / 100).numpy()
    found = {entry["label"]: entry["score"] for entry in json.loads(out)["classes"]}
    names = ["blue one", "green", "red"]
    np.testing.assert_allclose([found[name] for name in names], expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (["--input_layer=inputs"], 1, "Next: --input_layer=input\n"),
        (["--output_layer="], 2, "--output_layer is empty and names nothing."),
        (["--input_std=0"], 2, "No picture can become the input."),
        (["--input_height=100"], 1, "Expected: 16 x 16 pixels\nReceived: --input_height=100 "),
        (["--image=absent.jpg"], 1, "absent.jpg is not there."),
        (["--output_layer=input"], 1, "does not give a score for each class."),
    ],
)
def test_what_cannot_be_is_refused(slimtune, graph, labels, tmp_path, flags, code, said):
    image = picture(tmp_path / "p.png", "png")
    found, out, err = run(slimtune, graph, image, labels, *flags)
    assert (found, out) == (code, "")
    assert said in err and "Traceback" not in err


def test_labels_of_another_count_are_refused(slimtune, graph, labels, tmp_path):
    labels.write_text("a\nb\n")
    code, _, err = run(slimtune, graph, picture(tmp_path / "p.png", "png"), labels)
    assert code == 1
    assert "Expected: 3 class names, one for each logit\nReceived: 2\n" in err


def test_without_a_size_the_graphs_own_is_taken(slimtune, graph, labels, tmp_path):
    image = picture(tmp_path / "p.png", "png")
    code, out, err = slimtune(
        *("classic", "label_image", f"--graph={graph}", f"--image={image}", f"--labels={labels}"),
        "--output_layer=probabilities",
    )
    assert code == 0, err
    assert out == run(slimtune, graph, image, labels)[1]
