"""Evaluation between steps on stored features: the head alone runs."""

from __future__ import annotations

import numpy as np

from exporters.freezing import prepare
from exporters.frozen_file import frozen_graph_def
from exporters.graph import Graph
from exporters.names import node_of
from exporters.runtime import GraphRunner
from finetune.datasets.dataset import Dataset
from finetune.evaluating.multi_label import MultiLabelEvaluation
from finetune.evaluating.scores import Evaluation
from finetune.model import ANSWERS, open_model
from finetune.run import Run
from finetune.trunk.batches import StepBatches

BATCH_SIZE = 256


def evaluate_on_features(
    run: Run, dataset: Dataset, split: str, batches: StepBatches
) -> Evaluation | None:
    """Scores the newest checkpoint on features of held-out pictures.

    The trunk is the one that training takes features from, so it may have run in bfloat16.

    Args:
      run: with a checkpoint.
      dataset: its pictures.
      split: which of them.
      batches: what its steps are fed.

    Returns:
      As `evaluate`; None where features are not stored, or the net's inference graph has no
      such tensor.
    """
    held_out = batches.held_out(split)
    model = open_model(run.directory) if held_out is not None else None
    if held_out is None or model is None or model.graph_def is None:
        return None
    features, views = held_out
    tensor = batches.cut.name
    outputs = model.metadata.outputs
    wanted = next((outputs[role] for role in ANSWERS if role in outputs), None)
    names = {node.name for node in model.graph_def.node}
    if wanted is None or node_of(tensor) not in names:
        return None
    head = prepare(Graph(model.graph_def), {}, outputs=[wanted], inputs=[tensor])
    if len(head.inputs) != 1:
        return None
    with GraphRunner(frozen_graph_def(head), [str(head.inputs[0])], [wanted]) as runner:
        answers = [
            model.probabilities(runner.run(features[start : start + BATCH_SIZE])[0])
            for start in range(0, len(features), BATCH_SIZE)
        ]
    return (MultiLabelEvaluation if model.metadata.multi_label else Evaluation)(
        classes=model.classes,
        names=views.names(),
        labels=views.labels,
        probabilities=np.concatenate(answers),
        split=split,
        step=model.metadata.step,
    )
