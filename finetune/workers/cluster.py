"""Which processes train together: from TF_CONFIG, as Kubernetes operators and cloud trainers set
it, or from a list of addresses that is the same everywhere.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkpoints.errors import RunError, UsageError
from checkpoints.numbers import whole_number
from finetune.workers.port_claim import claim_port

VARIABLE = "TF_CONFIG"
CHIEFS = ("chief", "master")
"""Types of the task that writes; the second is TensorFlow's older word for it."""

_FORM = (
    '{"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", "index": 0}}, beside '
    "worker chief and evaluator"
)
_ALONE = f"env -u {VARIABLE} slimtune train ..."


@dataclass(frozen=True)
class Cluster:
    """The processes that train together, as one of them sees them.

    Attributes:
      addresses: host:port of each; the first is the chief, which alone writes the run.
      index: which of them this process is.
    """

    addresses: tuple[str, ...]
    index: int

    def name(self, index: int) -> str:
        """What messages call one of them."""
        return f"{'the chief' if index == 0 else f'worker {index}'} ({self.addresses[index]})"


def find_cluster(
    hosts: Sequence[str] = (), environment: Mapping[str, str] = os.environ
) -> Cluster | None:
    """The cluster of this process; None where it trains alone.

    Args:
      hosts: host:port of every process, or empty. Where this one finds several of its own
        machine, it is the first whose port no other has claimed.
      environment: may hold TF_CONFIG.

    Raises:
      UsageError: TF_CONFIG or the addresses are not what they should be.
      RunError: this process is a parameter server or an evaluator, which train nothing here.
    """
    addresses, index = _from_tf_config(environment)
    if hosts:
        if addresses:
            raise UsageError(
                f"--hosts and the environment variable {VARIABLE} both name a cluster.",
                expected="one of them",
                received=f"--hosts {','.join(hosts)} and {VARIABLE} with {','.join(addresses)}",
                next_step=f"Leave --hosts out, or {VARIABLE}: env -u {VARIABLE} slimtune train ...",
            )
        addresses, index = _from_hosts(tuple(hosts))
    return Cluster(addresses, index) if len(addresses) > 1 else None


_ADDRESS = re.compile(r"(?:\[(?P<ipv6>[^/\s@\[\]]+)\]|(?P<name>[^/\s@:\[\]]+)):(?P<port>\d+)")
"""Without brackets gRPC takes the whole of an IPv6 address for a host."""


def address_parts(address: str) -> tuple[str, int]:
    """Host and port of "host:port"; an IPv6 host stands in brackets.

    Raises:
      UsageError: it is no such address.
    """
    found = _ADDRESS.fullmatch(address)
    port = None if found is None else whole_number(found["port"])
    if found is None or port is None or not 0 < port < 65536:
        raise UsageError(
            f"{address!r} is no address of a process.",
            expected="host:port, as in 10.0.0.1:2222 or [fd00::1]:2222",
            received=repr(address),
        )
    return found["name"] or found["ipv6"], port


def _from_hosts(hosts: tuple[str, ...]) -> tuple[tuple[str, ...], int]:
    parts = [address_parts(address) for address in hosts]
    if len(set(hosts)) != len(hosts):
        raise UsageError(
            "--hosts names an address twice.",
            expected="one address a process",
            received=",".join(hosts),
        )
    own = [index for index, (host, _) in enumerate(parts) if _is_this_machine(host)]
    if not own:
        raise UsageError(
            "No address of --hosts is one of this machine.",
            expected=f"this machine ({socket.gethostname()}) among them",
            received=",".join(hosts),
            next_step="Give every machine the same list of all, as others reach them.",
        )
    for index in own:
        if len(hosts) == 1 or claim_port(parts[index][1]):
            return hosts, index
    raise RunError(
        "Every address of --hosts on this machine is taken by a process already.",
        expected="one process an address",
        received=", ".join(hosts[index] for index in own),
        next_step="Wait until the others have ended, or add an address.",
    )


def _is_this_machine(host: str) -> bool:
    """Whether a name leads to an address that this machine can listen at."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.bind((address[0], 0))
        except OSError:
            continue
        return True
    return False


def _from_tf_config(environment: Mapping[str, str]) -> tuple[tuple[str, ...], int]:
    """All addresses, the chief's first, and this process's place; none where there is no cluster.

    Source:
      https://www.tensorflow.org/guide/distributed_training, Setting up TF_CONFIG.
    """
    text = environment.get(VARIABLE, "").strip()
    if not text:
        return (), 0
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _broken("is no JSON", error) from error
    if not isinstance(value, dict):
        raise _broken("is no object", text)
    cluster, task = value.get("cluster"), value.get("task")
    if not cluster:
        return (), 0
    if not isinstance(cluster, dict) or not all(map(_is_addresses, cluster.values())):
        raise _broken("names a cluster without addresses", cluster)
    kind, index = (task.get("type"), task.get("index")) if isinstance(task, dict) else (None, None)
    if isinstance(index, str):
        index = whole_number(index)
    if not isinstance(kind, str) or not isinstance(index, int) or isinstance(index, bool):
        raise _broken("does not say which task this is", task)
    # An evaluator stands outside of the cluster that it evaluates.
    if kind != "evaluator" and not 0 <= index < len(cluster.get(kind, ())):
        raise _broken(f"names the task {kind} {index}, which its cluster does not have", cluster)
    _refuse_other_tasks(kind, index, cluster)
    trainers = [
        (name, i) for name in (*CHIEFS, "worker") for i in range(len(cluster.get(name, ())))
    ]
    if (kind, index) not in trainers:
        raise _broken(f"names the task {kind} {index}, which does not train", cluster)
    addresses = tuple(cluster[name][place] for name, place in trainers)
    for address in addresses:
        address_parts(address)
    return addresses, trainers.index((kind, index))


def _refuse_other_tasks(kind: str, index: int, cluster: Mapping[str, Any]) -> None:
    if kind == "evaluator":
        raise RunError(
            f"This is {kind} {index} of the cluster in {VARIABLE}, and an evaluator does not train.",
            expected="the task chief or worker",
            received=f"{kind} {index}",
            next_step="slimtune evaluate RUN DATA --watch is the evaluator.",
        )
    if cluster.get("ps"):
        raise RunError(
            f"The cluster in {VARIABLE} has parameter servers: workers here keep the variables "
            "themselves and step together.",
            expected="the tasks chief and worker",
            received=f"{kind} {index} of a cluster with {len(cluster['ps'])} ps",
            next_step=f"Leave the task ps out of {VARIABLE}, or train on this machine alone: "
            f"{_ALONE}",
        )


def _is_addresses(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(address, str) for address in value)


def _broken(what: str, received: object) -> UsageError:
    return UsageError(
        f"The environment variable {VARIABLE} {what}.",
        expected=_FORM,
        received=received if isinstance(received, Exception) else json.dumps(received),
        next_step=f"Correct it, or train on this machine alone: {_ALONE}",
    )
