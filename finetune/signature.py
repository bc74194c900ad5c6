"""What a run says of its net: the inference graph, and where its inputs and answers are."""

from __future__ import annotations

from typing import Any

from checkpoints.files import atomic_file, write_json
from checkpoints.messages import GraphDef
from exporters.metadata import Metadata, metadata_node
from finetune.datasets.dataset import Dataset
from finetune.nets.build import InferenceGraph, inference_graph
from finetune.preprocessing import Preprocessing
from finetune.run import Run
from finetune.training.heads import LINEAR, Head
from finetune.weights import Weights


def net_metadata(
    graph: InferenceGraph,
    net: str,
    classes: tuple[str, ...],
    preprocessing: Preprocessing,
    label_offset: int = 0,
    step: int | None = None,
    multi_label: bool = False,
) -> Metadata:
    """What travels with a net: class names, preprocessing, names of its tensors."""
    return Metadata(
        classes=classes,
        label_offset=label_offset,
        preprocessing=preprocessing.as_json(),
        image_size=preprocessing.image_size,
        input=graph.input,
        outputs={
            "probabilities": graph.probabilities,
            "logits": graph.logits,
            "bottleneck": graph.bottleneck,
        },
        net=net,
        step=step,
        multi_label=multi_label,
    )


def with_metadata(graph: InferenceGraph, metadata: Metadata) -> GraphDef:
    """The net's message with the metadata node in it."""
    graph_def = GraphDef.FromString(graph.graph_def.SerializeToString())
    graph_def.node.append(metadata_node(metadata))
    return graph_def


def write_inference_graph(
    run: Run,
    weights: Weights,
    dataset: Dataset,
    preprocessing: Preprocessing,
    head: Head = LINEAR,
) -> None:
    """Writes inference_graph.pb and signature.json: all that converting a run needs of its net."""
    graph = inference_graph(weights.net, len(dataset.classes), preprocessing.image_size, head)
    metadata = net_metadata(
        graph,
        weights.net.name,
        dataset.classes,
        preprocessing,
        multi_label=head.multi_label,
    )
    with atomic_file(run.graph_file) as file:
        file.write(with_metadata(graph, metadata).SerializeToString(deterministic=True))
    write_json(run.signature_file, _signature(metadata, preprocessing.channels))


def _signature(metadata: Metadata, channels: int) -> dict[str, Any]:
    size = metadata.image_size
    shape = [None, size, size, channels]
    return {
        "graph": Run.GRAPH,
        "inputs": [{"name": metadata.input, "dtype": "float32", "shape": shape}],
        "outputs": [
            {"name": name, "role": role, "dtype": "float32"}
            for role, name in metadata.outputs.items()
        ],
        **metadata.as_json(),
    }
