"""slimtune convert: a model in one form becomes a model in another, and is verified."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from checkpoints.command_lines import shell_words
from checkpoints.errors import GraphError, UsageError
from scripts.output import Output, one_line
from scripts.verb import names_option, verb

if TYPE_CHECKING:
    from exporters.conversion import Conversion, Endpoint

_PROOFS = {
    "structure": "proved node by node and byte by byte",
    "variables": "read again, and every bit compared",
    "run": "proved node by node, and compared on the same inputs",
    "other": "compared with its source on the same inputs",
    "none": "not verified",
}
_CHECKPOINTS = ("v1", "v2")
_RUN = ("pb", "pbtxt", "saved-model", "tflite", "onnx")
"""Forms that predict takes."""


@verb(
    "convert",
    example="slimtune convert runs/a model.pb\n"
    "slimtune convert model.ckpt model.pb --graph eval.pbtxt --outputs probabilities",
)
@click.argument("source", metavar="SRC")
@click.argument("destination", metavar="DST")
@click.option("--to", metavar="FORM", help="The form of DST, where its name does not tell it.")
@click.option(
    "--graph",
    type=click.Path(),
    metavar="FILE",
    help="The graph (.meta, .pb, .pbtxt), if not beside SRC.",
)
@click.option(
    "--checkpoint", type=click.Path(), metavar="C", help="The variables, if SRC is a graph."
)
@click.option("--net", metavar="NAME", help="A registered net as the graph; `slimtune nets`.")
@click.option("--classes", type=click.IntRange(1), metavar="N", help="Classes the model must have.")
@click.option(
    "--image-size", type=click.IntRange(1), metavar="PX", help="With --net: height and width."
)
@names_option("--outputs", metavar="NAME,...", help="Nodes or tensors; guessed if left out.")
@names_option(
    "--inputs",
    metavar="NAME[=?x224x224x3],...",
    help="Nodes or tensors to feed; the placeholders, or what a pipeline gives, if left out.",
)
@names_option(
    "--set", metavar="NAME=VALUE,...", help="Placeholders that become constants; is_training=false."
)
@click.option("--drop-checks", is_flag=True, help="Take out assertions, CheckNumerics and Print.")
@click.option("--labels", type=click.Path(), metavar="FILE", help="Class names, one a line.")
@click.option("--keep-variables", is_flag=True, help="Do not freeze: the graph keeps them.")
@click.option("--optimize", is_flag=True, help="Fold batch norms and constants; same answers.")
@click.option("--compat", is_flag=True, help="Drop default attributes, for older TensorFlows.")
@click.option(
    "--quantize",
    type=click.Choice(["dynamic", "int8"]),
    help="TFLite: weights in 8 bits, or activations too.",
)
@click.option(
    "--calibration", type=click.Path(), metavar="DIR", help="Pictures for --quantize int8."
)
@click.option(
    "--layout", type=click.Choice(["nhwc", "nchw"]), help="ONNX: the input's; nhwc if left out."
)
@click.option(
    "--with-preprocessing", is_flag=True, help="Put decoding and preprocessing into the graph."
)
@click.option(
    "--warm-up",
    type=click.Path(),
    metavar="DIR",
    help="SavedModel: pictures for TensorFlow Serving's first requests to itself.",
)
@click.option(
    "--weights",
    type=click.Choice(["auto", "raw", "ema"]),
    default="auto",
    show_default=True,
    help="ema: moving averages in place of the variables. auto: of a run trained with --ema its "
    "averages, else the variables; it says which.",
)
@click.option("--include", multiple=True, metavar="REGEX", help="Only variables it matches.")
@click.option("--exclude", multiple=True, metavar="REGEX", help="No variables it matches.")
@click.option(
    "--rename",
    multiple=True,
    metavar="'s|OLD|NEW|'",
    help="As in sed: any delimiter, \\1 for groups, flags g and i; one after the other.",
)
@click.option("--dtype", metavar="DTYPE", help="Float variables become float16, bfloat16, float32.")
@names_option("--drop", metavar="PART,...", help="Leave out slots, ema, step.")
@click.option(
    "--partition",
    type=click.IntRange(2),
    metavar="N",
    help="Write large variables in N slices, as TensorFlow's partitioned variables.",
)
@click.option(
    "--partition-bytes",
    type=click.IntRange(0),
    metavar="BYTES",
    help="With --partition: from which size on; 262144 if left out.",
)
@click.option(
    "--verify",
    type=click.Choice(["auto", "structure", "run", "none"]),
    default="auto",
    show_default=True,
    help="How DST is compared with SRC before it gets its name.",
)
@click.option("--keep-training", is_flag=True, help="Leave a graph in training mode as it is.")
@click.option("--trust", is_flag=True, help="Let a graph use files, network and Python ops.")
@click.option("--overwrite", is_flag=True, help="Replace DST; of a link the link.")
def command(
    output: Output,
    source: str,
    destination: str,
    net: str | None,
    classes: int | None,
    image_size: int | None,
    **options: Any,
) -> None:
    """Convert SRC to DST; the form of DST is read from its name.

    SRC is a checkpoint in any spelling with its .meta beside, an npz or safetensors file, a run
    directory, a graph file or a SavedModel's directory. What DST may end in `slimtune formats`
    lists: .pb (frozen graph), a slash (SavedModel), .ckpt (V2 checkpoint; V1 with --to v1) and
    others. A frozen graph that becomes a checkpoint is thawed: its constants are variables again,
    and TensorFlow trains what is written. What is written is verified; a failed verification
    leaves nothing in place.

    The options from --include to --partition choose, rename, cast and cut variables; they are
    for .ckpt, .npz and .safetensors only.
    """
    import exporters

    options |= _variable_options(options) | _model_options(options, output)

    if net is None and image_size is not None:
        raise UsageError("--image-size says how a net is built.", next_step="Add --net NAME.")
    if net is not None:
        source, built = _build_net(source, net, classes, image_size, options, output)
        options |= built
    done = exporters.convert(source, destination, classes=classes, progress=output, **options)
    output.result(done.as_json(), "\n".join(_lines(done)))
    output.next(*_next_commands(done, options["options"].keep_variables))


def _variable_options(options: dict[str, Any]) -> dict[str, Any]:
    """Takes the options that concern variables out, and gives what the library wants of them."""
    from checkpoints.selection import Selection
    from checkpoints.slicing import SMALLEST_BYTES, Slicing

    names = ("weights", "include", "exclude", "rename", "dtype", "drop")
    selection = Selection(**{name: options.pop(name) for name in names})
    count, smallest = options.pop("partition"), options.pop("partition_bytes")
    if count is None and smallest is not None:
        raise UsageError("--partition-bytes says what is cut.", next_step="Add --partition N.")
    size = SMALLEST_BYTES if smallest is None else smallest
    slicing = None if count is None else Slicing(count, size)
    return {"selection": selection, "slicing": slicing}


def _model_options(options: dict[str, Any], output: Output) -> dict[str, Any]:
    """Takes the options that change a model out, and gives what the library wants of them."""
    from exporters.options import ModelOptions

    names = ("keep_variables", "optimize", "compat", "quantize", "layout")
    given = {name: options.pop(name) for name in names}
    folder, is_with_preprocessing = options.pop("calibration"), options.pop("with_preprocessing")
    if folder is not None:
        from finetune.serving import calibration_pictures

        given["calibration"] = calibration_pictures(folder, progress=output)
    if (warm_up := options.pop("warm_up")) is not None:
        from finetune.serving import warm_up_pictures

        given["warm_up"] = warm_up_pictures(warm_up, progress=output)
    if is_with_preprocessing:
        from finetune.serving import preprocessing_graph

        given["with_preprocessing"] = preprocessing_graph
    return {"options": ModelOptions(**given)}


def _build_net(
    source: str,
    net: str,
    classes: int | None,
    image_size: int | None,
    options: dict[str, Any],
    output: Output,
) -> tuple[str, dict[str, Any]]:
    """A registered net in evaluation mode, with as many classes as the checkpoint's head has."""
    from finetune.model import head_classes
    from finetune.nets import inference_graph
    from finetune.preprocessing import Preprocessing
    from finetune.signature import net_metadata
    from finetune.trained_classes import classes_beside
    from finetune.weights import find_weights

    if options["graph"] is not None:
        raise UsageError("--net and --graph both give the graph.", next_step="Leave one out.")
    weights = find_weights(net, options["checkpoint"] or source, progress=output)
    published = weights.published
    with weights.open() as saved:
        if saved is None or weights.path is None:
            raise UsageError("A model needs variables.", expected="a checkpoint", received=source)
        found = head_classes(weights.net, saved.variables, str(weights.path))
    if classes not in (None, found):
        raise GraphError(
            f"The head of {weights.net.name} in {weights.path} does not have {classes} classes.",
            expected=f"--classes {found}, as its weights have",
            received=classes,
        )
    size = image_size or weights.image_size
    graph = inference_graph(weights.net, found, size)
    metadata = net_metadata(
        graph,
        weights.net.name,
        classes_beside(weights.path, found),
        Preprocessing(weights.preprocessing, size),
        label_offset=published.label_offset if published else 0,
    )
    return str(weights.path), {"graph": graph.graph_def, "checkpoint": None, "metadata": metadata}


def _lines(done: Conversion) -> list[str]:
    size = f"{done.num_bytes / 1e6:,.1f} MB"
    nodes = "" if done.nodes is None else f"{done.nodes:,} nodes, "
    lines = [f"{one_line(done.path)}: {nodes}{done.parameters:,} parameters, {size}"]
    lines += [f"Input         {_endpoint(endpoint)}" for endpoint in done.inputs]
    lines += [f"Output        {_endpoint(endpoint)}" for endpoint in done.outputs]
    verification = done.verification
    figures = ""
    if verification.mode == "run":
        agreement = verification.top1_agreement
        figures = f": max_abs {verification.max_abs:.2g}, max_rel {verification.max_rel:.2g}"
        figures += "" if agreement is None else f", top-1 agreement {agreement:.1%}"
    is_variables = verification.mode == "structure" and done.nodes is None
    kind: str = "variables" if is_variables else verification.mode
    if done.form in ("onnx", "tflite") and kind == "run":
        kind = "other"
    proof = _PROOFS[kind]
    lines.append(f"Verification  {proof}{figures}")
    return lines


def _endpoint(endpoint: Endpoint) -> str:
    if endpoint.shape is None:
        shape = ""
    else:
        shape = f" [{', '.join('?' if size is None else str(size) for size in endpoint.shape)}]"
    return f"{endpoint.name} {endpoint.dtype or ''}{shape}".rstrip()


def _next_commands(done: Conversion, keeps_variables: bool) -> list[str]:
    path = shell_words(done.path)
    if done.metadata is None or done.metadata.preprocessing is None:
        return [f"slimtune inspect {path}"]
    if done.form in _CHECKPOINTS and done.nodes is not None:
        meta = shell_words(Path(f"{done.path}.meta"))
        return [f"slimtune train DATA --run RUN --net {meta}", f"slimtune inspect {path}"]
    # Of a graph that keeps its variables, a SavedModel alone has their values beside it.
    is_whole = done.form == "saved-model" or not keeps_variables
    if done.form in _RUN and is_whole:
        return [f"slimtune predict {path} picture.jpg"]
    return [f"slimtune inspect {path}"]
