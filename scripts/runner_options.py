"""The options of verbs whose work Apache Beam can share out."""

from __future__ import annotations

import click

from scripts.verb import option_group

runner_options = option_group(
    click.option(
        "--runner",
        type=click.Choice(["local", "beam"]),
        default="local",
        show_default=True,
        help="beam: Apache Beam, on this machine or, with --beam-options, on many; writes the same.",
    ),
    click.option(
        "--beam-options",
        default="",
        metavar="TEXT",
        help="Options of Beam's pipelines: '--runner=FlinkRunner --flink_master=HOST:PORT'.",
    ),
)
