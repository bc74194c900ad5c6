"""Work on many machines, through Apache Beam; the extra `beam`.

Jobs are numbered. The driver writes what each is to do into files beside the output; a pipeline of
nothing but numbers sends them to workers, and each worker writes what it found beside that. So the
pipeline stays small however many pictures there are, no picture passes the driver, and a job that
Beam runs twice writes the same bytes twice.
"""

from __future__ import annotations

import logging

from exporters.runtimes.extras import load_extra


def load_beam() -> None:
    """Imports Apache Beam without what it says of parts that are not installed.

    Raises:
      UnsupportedError: it is not installed.
    """
    # It tells through the root logger, and sets up a handler where there is none.
    logging.disable(logging.WARNING)
    try:
        load_extra("apache_beam")
        load_extra("apache_beam.io.filesystems")
    finally:
        logging.disable(logging.NOTSET)
