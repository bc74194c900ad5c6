"""A process that trains the tiny net in forks of itself, so that a test can kill one quickly.

Reads a line of JSON with the options of TrainConfig for each fork, and perhaps a `limit` on the
size of files in bytes and an `environment`; answers with its process number, and with its exit
status when it has ended. A list of such options makes forks that run at the same time.
"""

import importlib.util
import json
import os
import resource
import sys
import traceback
import types
from pathlib import Path

from checkpoints.errors import SlimtuneError
from checkpoints.published import NETS
from exporters.runtime import load_tensorflow
from finetune import TrainConfig, train
from finetune.slim import load_slim


def _register_tiny_net():
    spec = importlib.util.spec_from_file_location(
        "slimtune_tiny_fixtures", Path(__file__).with_name("conftest.py")
    )
    fixtures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fixtures)
    module = types.ModuleType("slimtune_tiny_net")
    module.build = fixtures.build_tiny_net
    sys.modules["slimtune_tiny_net"] = module
    NETS["tiny"] = fixtures.TINY


def _train(options):
    for name, value in options.items():
        if isinstance(value, list):
            options[name] = tuple(value)
    os.environ.update(options.pop("environment", {}))
    limit = options.pop("limit", None)
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        train(TrainConfig(**options))
    except SlimtuneError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    except Exception:  # noqa: BLE001 - the fork has to end as what it is, not as its parent
        traceback.print_exc()
        return 2
    return 0


def main():
    _register_tiny_net()
    # What a fork inherits it need not load; threads start with the first session only.
    load_tensorflow()
    load_slim()
    for line in sys.stdin:
        asked = json.loads(line)
        children = []
        for options in asked if isinstance(asked, list) else [asked]:
            child = os.fork()
            if child == 0:
                status = _train(options)
                sys.stderr.flush()
                os._exit(status)
            children.append(child)
            _say(child)
        for child in children:
            _, status = os.waitpid(child, 0)
            _say(os.waitstatus_to_exitcode(status))


def _say(number):
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
