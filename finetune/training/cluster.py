"""The cluster that TF_CONFIG describes, as Kubernetes operators and cloud trainers set it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from checkpoints.errors import UsageError

VARIABLE = "TF_CONFIG"
CHIEFS = ("chief", "master")
"""Types of the task that writes; the second is TensorFlow's older word for it."""

_FORM = (
    '{"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", "index": 0}}, beside '
    "worker chief, ps and evaluator"
)


@dataclass(frozen=True)
class Task:
    """One process of a cluster.

    Attributes:
      type: chief, worker, ps or evaluator.
      index: its number among those of its type, from 0.
      is_chief: whether it is the one that writes: the chief, or where there is none worker 0.
    """

    type: str
    index: int
    is_chief: bool


def read_task(environment: Mapping[str, str] = os.environ) -> Task | None:
    """This process's task; None where TF_CONFIG names no cluster.

    Raises:
      UsageError: TF_CONFIG is not what TensorFlow takes.

    Source:
      https://www.tensorflow.org/guide/distributed_training, Setting up TF_CONFIG.
    """
    text = environment.get(VARIABLE, "").strip()
    if not text:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _broken("is no JSON", error) from error
    if not isinstance(value, dict):
        raise _broken("is no object", text)
    cluster, task = value.get("cluster"), value.get("task")
    if not cluster:
        return None
    if not isinstance(cluster, dict) or not all(map(_is_addresses, cluster.values())):
        raise _broken("names a cluster without addresses", cluster)
    type_, index = (task.get("type"), task.get("index")) if isinstance(task, dict) else (None, None)
    if isinstance(index, str) and index.isdecimal():
        index = int(index)
    if not isinstance(type_, str) or not isinstance(index, int) or isinstance(index, bool):
        raise _broken("does not say which task this is", task)
    # An evaluator stands outside of the cluster that it evaluates.
    if type_ != "evaluator" and not 0 <= index < len(cluster.get(type_, ())):
        raise _broken(f"names the task {type_} {index}, which its cluster does not have", cluster)
    has_chief = any(name in cluster for name in CHIEFS)
    is_chief = type_ in CHIEFS or (type_ == "worker" and index == 0 and not has_chief)
    return Task(type_, index, is_chief)


def _is_addresses(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(address, str) for address in value)


def _broken(what: str, received: object) -> UsageError:
    return UsageError(
        f"The environment variable {VARIABLE} {what}.",
        expected=_FORM,
        received=received if isinstance(received, Exception) else json.dumps(received),
        next_step=f"Correct it, or train on this machine alone: env -u {VARIABLE} slimtune train ...",
    )
