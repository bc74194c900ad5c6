"""Which scopes train from when on: --trainable, and the stages of --unfreeze-at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checkpoints.published import Net
from checkpoints.scopes import clean_scopes, in_scope
from finetune.training.option_checks import UNFREEZING

ALL, HEADS = "all", "heads"
"""Words that --trainable and --unfreeze-at take beside scopes."""


@dataclass(frozen=True)
class Stage:
    """What one --unfreeze-at asks for.

    Attributes:
      at: steps that are done before it; or epochs.
      scopes: what trains from then on, beside what trains already.
      in_epochs: whether `at` counts epochs, where nobody knows yet how many steps one has.
    """

    at: int
    scopes: tuple[str, ...]
    in_epochs: bool = False

    @property
    def begins(self) -> str:
        """The first step or epoch of it, as in "step 1001"."""
        return f"{'epoch' if self.in_epochs else 'step'} {self.at + 1}"


def read_stages(texts: Sequence[str], epoch: int | None = None) -> list[Stage]:
    """The stages of --unfreeze-at, those of the same step joined, in order.

    Args:
      texts: as typed and split at commas: ("100:Net/A", "Net/B", "3e:Net/C").
      epoch: steps of one epoch; None: not known, so that epochs stay epochs. Between these and
        steps the order is then the typed one.
    """
    found: dict[tuple[int, bool], list[str]] = {}
    key = (0, False)
    for text in texts:
        beginning = UNFREEZING.fullmatch(text)
        if beginning is not None:
            in_epochs = bool(beginning[2])
            key = (int(beginning[1]), in_epochs)
            if epoch is not None:
                key = (key[0] * (epoch if in_epochs else 1), False)
        scope = text if beginning is None else beginning[3]
        found.setdefault(key, []).append(scope)
    stages = [Stage(at, tuple(scopes), in_epochs) for (at, in_epochs), scopes in found.items()]
    if is_order_known(stages):
        stages.sort(key=lambda stage: stage.at)
    return stages


def is_order_known(stages: Sequence[Stage]) -> bool:
    """Whether all stages are counted alike, in steps or in epochs."""
    return len({stage.in_epochs for stage in stages}) < 2


def scopes_by_phase(
    net: Net, trainable: Sequence[str], stages: Sequence[Stage]
) -> list[tuple[str, ...]]:
    """What trains before the first stage, and from each on.

    Args:
      net: whose scopes they are.
      trainable: what was asked for with --trainable; empty: the main head.
      stages: in order.
    """
    found = [default_trainable(net, trainable)]
    for stage in stages:
        found.append(_widest([*found[-1], *named_scopes(net, stage.scopes)]))
    return found


def updating_by_phase(
    net: Net,
    scopes: Sequence[Sequence[str]],
    batch_norm_decay: float | None,
    *,
    is_restored: bool,
) -> list[tuple[str, ...] | None]:
    """The trainable scopes of each phase whose batch norms use and average their batches.

    A head that has learned from a restored trunk knows what the trunk's averages make of a
    picture: batch norms of scopes that begin to train later keep them, unless a decay is given.

    Args:
      net: whose scopes they are.
      scopes: what trains in each phase.
      batch_norm_decay: as it was given; 1: all batch norms keep their averages.
      is_restored: whether the net starts from a checkpoint.

    Returns:
      For each phase the scopes; None: all that train.

    Source:
      Chollet 2020, "Transfer learning and fine-tuning", keras.io/guides/transfer_learning.
    """
    if batch_norm_decay is not None:
        return [() if batch_norm_decay == 1 else None] * len(scopes)
    first, *later = scopes
    kept = (*first, *net.head_scopes) if is_restored else None
    return [None, *([kept] * len(later))]


def default_trainable(net: Net, trainable: Sequence[str]) -> tuple[str, ...]:
    """The scopes asked for, else the main head."""
    return named_scopes(net, trainable) or (net.main_head,)


def named_scopes(net: Net, scopes: Sequence[str]) -> tuple[str, ...]:
    """Cleaned scopes with the words `all` (the whole net) and `heads` (all its heads) spelt out."""
    words = {ALL: net.top_scopes, HEADS: net.head_scopes}
    return tuple(found for scope in clean_scopes(scopes) for found in words.get(scope, (scope,)))


def _widest(scopes: Sequence[str]) -> tuple[str, ...]:
    """The scopes, without those that lie in another of them."""
    different = dict.fromkeys(scopes)
    return tuple(
        scope
        for scope in different
        if not any(in_scope(scope, other) for other in different if other != scope)
    )
