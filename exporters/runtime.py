"""The one place where TensorFlow is loaded: quietly, and only when something has to run."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def load_tensorflow() -> Any:
    """The tensorflow module, its start-up chatter kept from users.

    A user who set TF_CPP_MIN_LOG_LEVEL keeps that setting.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if "tensorflow" in sys.modules:
        return sys.modules["tensorflow"]
    with _stderr_held_back(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import tensorflow
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    return tensorflow


@contextmanager
def _stderr_held_back() -> Iterator[None]:
    """Keeps what native code writes to stderr, and shows it only where the block fails.

    No environment variable silences what TensorFlow logs before its logger is set up.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            held.seek(0)
            os.write(kept, held.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def session_config(threads: int | None = None) -> Any:
    """The ConfigProto of every session: devices chosen softly, GPU memory taken as needed.

    Args:
      threads: how many threads one session may use; None leaves it to TensorFlow.
    """
    config = load_tensorflow().compat.v1.ConfigProto(allow_soft_placement=True)
    config.gpu_options.allow_growth = True
    if threads is not None:
        config.intra_op_parallelism_threads = threads
        config.inter_op_parallelism_threads = threads
    return config
