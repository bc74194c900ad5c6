"""Where the trainable part of a training graph begins: the tensor that all of it is fed from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from exporters.runtime import load_tensorflow

CHANGING_OPS = frozenset(
    {
        "Multinomial",
        "ParameterizedTruncatedNormal",
        "RandomGamma",
        "RandomPoissonV2",
        "RandomShuffle",
        "RandomStandardNormal",
        "RandomUniform",
        "RandomUniformInt",
        "StatelessRandomUniform",
        "StatelessRandomUniformV2",
        "TruncatedNormal",
    }
)
"""Ops that may give something else for the same picture; what is made with them is not stored."""

REARRANGING_OPS = frozenset({"ExpandDims", "Identity", "Reshape", "Squeeze", "Transpose"})
"""Ops that give the numbers of their first input, and all of them."""


def find_cut(
    fetches: Iterable[Any],
    images: Any,
    changing: Sequence[Any],
    others: Sequence[Any] = (),
    bottleneck: Any = None,
) -> Any | None:
    """The last tensor that every path from the pictures to the trainable part goes through.

    Before it nothing changes during training and nothing is random, so that its value is a
    function of the picture alone. Fed in its place, it is all of the pictures that a step needs.

    Args:
      fetches: tensors and operations that a step runs.
      images: the tensor of pictures, float32 [batch, height, width, 3].
      changing: variables that training changes, the global step among them.
      others: further tensors that come with the pictures, as labels do.
      bottleneck: the tensor to take where it will do, though a later one would too: dropout
        begins with a product that only training has.

    Returns:
      A float32 tensor [batch, ...] of known sizes, or None where there is none but the pictures.
    """
    needed = _ancestors(fetches)
    unsteady = _unsteady(needed, changing, others)
    steady = _after(images, needed) - unsteady
    if any(control in steady for op in needed - steady for control in op.control_inputs):
        return None
    takers = needed - steady
    boundary = {
        tensor
        for op in takers
        for tensor in op.inputs
        if tensor is not images and tensor.op in steady
    }
    if any(tensor is images for op in takers for tensor in op.inputs) or not boundary:
        return None
    tensors = _backwards(boundary, images)
    preferred = [tensor for tensor in tensors if tensor is bottleneck]
    for tensor in (*preferred, *tensors):
        if _is_batch(tensor) and not _reaches(images, boundary, steady, without=tensor):
            return tensor
    return None


def variables_before(tensor: Any, variables: Sequence[Any]) -> list[Any]:
    """The variables that a tensor is made with."""
    needed = _ancestors([tensor])
    return [variable for variable in variables if variable.op in needed]


def is_rearranged(tensor: Any, images: Any) -> bool:
    """Whether a tensor holds the numbers of the pictures in another shape or order: no features."""
    while tensor is not images and tensor.op.type in REARRANGING_OPS:
        tensor = tensor.op.inputs[0]
    return tensor is images


def before_dropout(tensor: Any) -> Any:
    """What dropout in training mode was given: what comes out of it in evaluation.

    Args:
      tensor: what may be the result of tf.nn.dropout or its stateless form: a selection of
        products with one factor.

    Returns:
      The tensor before them; the same tensor where it is none.
    """
    selected = tensor
    while selected.op.type == "Identity":
        selected = selected.op.inputs[0]
    if selected.op.type not in ("Select", "SelectV2"):
        return tensor
    product = selected.op.inputs[1]
    if product.op.type not in ("Mul", "RealDiv"):
        return tensor
    values = [given for given in product.op.inputs if given.op.type != "Const"]
    return values[0] if len(values) == 1 else tensor


def replace_by_placeholder(tensor: Any, name: str) -> Any:
    """Lets everything that takes a tensor take a new placeholder of its shape instead.

    Feeding the tensor itself would not do: TensorFlow's optimiser of graphs turns inputs whose
    values it knows into control edges, and these run what is before a fed tensor all the same,
    unless it is a placeholder.

    Args:
      tensor: of a tf.Graph that no session has run yet.
      name: of the placeholder.

    Returns:
      The placeholder.
    """
    v1 = load_tensorflow().compat.v1
    with tensor.graph.as_default(), v1.name_scope(""):
        placeholder = v1.placeholder(tensor.dtype, tensor.shape, name=name)
    for op in tensor.consumers():
        for index, given in enumerate(op.inputs):
            if given is tensor:
                op._update_input(index, placeholder)
    return placeholder


def _ancestors(fetches: Iterable[Any]) -> set[Any]:
    waiting = [getattr(fetch, "op", fetch) for fetch in fetches]
    found = set(waiting)
    while waiting:
        op = waiting.pop()
        for before in (*(tensor.op for tensor in op.inputs), *op.control_inputs):
            if before not in found:
                found.add(before)
                waiting.append(before)
    return found


def _after(tensor: Any, among: set[Any]) -> set[Any]:
    """The operations that are made with a tensor, through any number of others."""
    waiting = [op for op in tensor.consumers() if op in among]
    found = set(waiting)
    while waiting:
        for output in waiting.pop().outputs:
            new = [op for op in output.consumers() if op in among and op not in found]
            found.update(new)
            waiting += new
    return found


def _unsteady(needed: set[Any], changing: Sequence[Any], others: Sequence[Any]) -> set[Any]:
    sources = {variable.op for variable in changing} & needed
    sources |= {op for op in needed if op.type in CHANGING_OPS}
    found = set(sources)
    for tensor in (*others, *(output for op in sources for output in op.outputs)):
        found |= _after(tensor, needed)
    return found


def _backwards(boundary: set[Any], images: Any) -> list[Any]:
    """Tensors from the boundary towards the pictures, the last ones first."""
    order = list(boundary)
    seen = set(map(id, order))
    place = 0
    while place < len(order):
        for tensor in order[place].op.inputs:
            if tensor is not images and id(tensor) not in seen:
                seen.add(id(tensor))
                order.append(tensor)
        place += 1
    return order


def _is_batch(tensor: Any) -> bool:
    shape = tensor.shape
    return (
        tensor.dtype.base_dtype.name == "float32"
        and shape.rank is not None
        and shape.rank >= 2
        and None not in shape.as_list()[1:]
    )


def _reaches(images: Any, boundary: set[Any], steady: set[Any], without: Any) -> bool:
    """Whether a tensor of the boundary is made with the pictures and not with `without`."""
    waiting = [images]
    seen = {id(images)}
    ends = set(map(id, boundary))
    while waiting:
        tensor = waiting.pop()
        for op in tensor.consumers():
            if op not in steady:
                continue
            for output in op.outputs:
                if output is without or id(output) in seen:
                    continue
                if id(output) in ends:
                    return True
                seen.add(id(output))
                waiting.append(output)
    return False
