"""The one place where TensorFlow is loaded: quietly, and only when something has to run."""

from __future__ import annotations

import logging
import os
import warnings
from typing import Any


def load_tensorflow() -> Any:
    """The tensorflow module, its start-up chatter kept from users.

    A user who set TF_CPP_MIN_LOG_LEVEL keeps that setting.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import tensorflow
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    return tensorflow
