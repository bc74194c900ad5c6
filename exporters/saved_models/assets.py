"""The files that come with a SavedModel."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from checkpoints.messages import AssetFileDef
from exporters.graph import Graph

DIRECTORY = "assets"
"""The directory inside a SavedModel that holds them."""

_COLLECTION = "saved_model_assets"


def asset_files(graph: Graph) -> list[str]:
    """Names of the files in assets/, as the graph's MetaGraphDef lists them, sorted.

    TensorFlow lists them in a field of their own, or in a collection.
    """
    if graph.meta_graph is None:
        return []
    names = {asset.filename for asset in graph.meta_graph.asset_file_def}
    if _COLLECTION in graph.meta_graph.collection_def:
        for entry in graph.meta_graph.collection_def[_COLLECTION].any_list.value:
            try:
                names.add(AssetFileDef.FromString(entry.value).filename)
            except DecodeError:
                continue
    return sorted(name for name in names if name)
