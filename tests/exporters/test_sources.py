"""No conversion writes over what it reads."""

from __future__ import annotations

import pytest

import checkpoints
import exporters
from checkpoints.errors import UsageError
from checkpoints.messages import MetaGraphDef


@pytest.fixture
def folder(builder, tmp_path):
    """A dense net as m.ckpt with its .meta, as m.pb, as a SavedModel in model/."""
    net = builder.dense_net()
    meta_graph = MetaGraphDef(graph_def=net.graph_def)
    meta_graph.meta_info_def.tensorflow_version = "1.15.0"
    checkpoints.write(tmp_path / "m.ckpt", net.values)
    (tmp_path / "m.ckpt.meta").write_bytes(meta_graph.SerializeToString())
    (tmp_path / "graph.meta").write_bytes(meta_graph.SerializeToString())
    exporters.convert(tmp_path / "m.ckpt", tmp_path / "m.pb")
    exporters.convert(tmp_path / "m.ckpt", f"{tmp_path / 'model'}/", to="saved-model")
    return tmp_path


def all_bytes(folder):
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize(
    ("source", "destination", "options"),
    [
        ("m.ckpt", "m.ckpt.meta", {}),
        ("m.ckpt.meta", "m.ckpt.meta", {}),
        ("m.ckpt", "graph.meta", {"graph": "graph.meta"}),
        ("graph.meta", "graph.meta", {"checkpoint": "m.ckpt"}),
        ("m.ckpt", "m.ckpt.index", {"to": "pb"}),
        ("m.ckpt", "m.ckpt.data-00000-of-00001", {"to": "npz"}),
        ("m.pb", "m.pb", {}),
        ("m.pb", "./model/../m.pb", {"to": "pbtxt"}),
        ("model", "model", {"to": "saved-model"}),
        ("model", "model/saved_model.pb", {}),
        ("m.ckpt", ".", {"to": "saved-model"}),
    ],
)
def test_a_file_of_the_source_is_never_replaced(folder, source, destination, options):
    before = all_bytes(folder)
    for key in ("graph", "checkpoint"):
        if key in options:
            options = options | {key: folder / options[key]}
    with pytest.raises(UsageError, match="would be replaced, which is the source"):
        exporters.convert(folder / source, folder / destination, overwrite=True, **options)
    assert all_bytes(folder) == before


def test_a_link_to_the_source_is_the_source(folder):
    (folder / "link.pb").symlink_to(folder / "m.pb")
    with pytest.raises(UsageError, match=r"m\.pb would be replaced"):
        exporters.convert(folder / "m.pb", folder / "link.pb", overwrite=True)


def test_what_lies_beside_the_source_is_replaced(folder):
    done = exporters.convert(folder / "m.ckpt", folder / "m.pb", overwrite=True)
    assert done.verification.passed
    exporters.convert(folder / "m.pb", f"{folder / 'model'}/", overwrite=True)


def test_a_graph_in_memory_is_a_source_and_may_have_a_checkpoint(folder):
    from exporters.graph import read_graph

    graph = read_graph(folder / "graph.meta")
    exporters.convert(graph, folder / "a.pb", checkpoint=folder / "m.ckpt")
    assert (folder / "a.pb").read_bytes() == (folder / "m.pb").read_bytes()
    exporters.convert(read_graph(folder / "a.pb"), folder / "b.pb")
    assert (folder / "b.pb").read_bytes() == (folder / "m.pb").read_bytes()
