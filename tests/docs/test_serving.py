"""docs/serving.md: its Python runs, and answers as slimtune does."""

from __future__ import annotations

import base64
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

PAGE = Path(__file__).resolve().parents[2] / "docs/serving.md"


@pytest.fixture(scope="module")
def functions():
    """Every function of the page by its name; what needs an extra is imported when it is called."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    found = {}
    for block in blocks:
        name = re.search(r"^def (\w+)", block, re.MULTILINE)[1]

        def call(*arguments, block=block, name=name, **named):
            names = {}
            exec(compile(block, f"{PAGE}: {name}", "exec"), names)  # noqa: S102 - our own page
            return names[name](*arguments, **named)

        found[name] = call
    return found


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "picture.png"
    pixels = np.random.default_rng(2).integers(0, 255, (15, 20, 3), np.uint8)
    Image.fromarray(pixels).resize((151, 97), Image.Resampling.BICUBIC).save(path)
    return path


def test_the_page_has_these_functions(functions):
    assert sorted(functions) == [
        "classify",
        "classify_lite",
        "classify_onnx",
        "classify_pb",
        "read_picture",
    ]


class Server(BaseHTTPRequestHandler):
    """Answers as TensorFlow Serving does, with the length and first byte of what it is sent."""

    def do_POST(self):
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        files = [base64.b64decode(each["b64"]) for each in sent["instances"]]
        rows = [{"probabilities": [len(file), file[0]], "logits": []} for file in files]
        self.server.asked.append(self.path)
        answer = json.dumps({"predictions": rows}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *words):
        pass


def test_the_client_sends_files_and_reads_probabilities(functions, tmp_path):
    (tmp_path / "a").write_bytes(b"\xff\xd8abc")
    (tmp_path / "b").write_bytes(b"\x89PNG")
    with HTTPServer(("127.0.0.1", 0), Server) as server:
        server.asked = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = "/v1/models/flowers:predict"
        address = f"http://127.0.0.1:{server.server_port}{place}"
        found = functions["classify"]([tmp_path / "a", tmp_path / "b"], address=address)
        server.shutdown()
    assert found == [[5, 0xFF], [4, 0x89]]
    assert server.asked == [place]
    assert f"http://localhost:8501{place}" in PAGE.read_text()


@pytest.mark.tensorflow
def test_read_picture_is_the_preprocessing(functions, picture):
    from exporters.runtime import load_tensorflow
    from finetune.preprocessing import Preprocessing

    tf = load_tensorflow()
    for size in (149, 64):
        wanted = Preprocessing("inception", size).evaluation(tf.constant(picture.read_bytes()))
        found = functions["read_picture"](picture, size)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found[0], wanted.numpy(), atol=1e-4)


@pytest.mark.long
@pytest.mark.tensorflow
def test_runtimes_answer_as_slimtune_does(functions, picture, colour_model, slimtune, tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("ai_edge_litert")
    frozen = colour_model.write_pb(tmp_path / "frozen.pb")
    code, out, _ = slimtune("predict", frozen, picture, "--json")
    assert code == 0
    (answer,) = json.loads(out)["predictions"]
    wanted = {each["label"]: each["probability"] for each in answer["classes"]}
    given = functions["read_picture"](picture, 16)
    for form in ("onnx", "tflite"):
        code, _, said = slimtune("convert", frozen, tmp_path / f"model.{form}")
        assert code == 0, said
        name = {"onnx": "classify_onnx", "tflite": "classify_lite"}[form]
        found = functions[name](str(tmp_path / f"model.{form}"), given)
        assert dict(found) == pytest.approx(wanted, abs=1e-4)
        assert found[0][0] == answer["classes"][0]["label"]
    found = functions["classify_pb"](frozen, given)
    assert dict(zip(colour_model.classes, found, strict=True)) == pytest.approx(wanted, abs=1e-4)
