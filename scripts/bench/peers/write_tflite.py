"""A frozen graph as TensorFlow's converter of session graphs writes it.

python -m scripts.bench.peers.write_tflite FROZEN.pb INPUT OUTPUT MODEL.tflite
"""

from __future__ import annotations

import sys
from pathlib import Path

from exporters.runtime import load_tensorflow


def main() -> None:
    """Converts with the defaults; INPUT and OUTPUT are node names."""
    frozen, input_name, output, model = sys.argv[1:]
    lite = load_tensorflow().compat.v1.lite
    converter = lite.TFLiteConverter.from_frozen_graph(frozen, [input_name], [output])
    Path(model).write_bytes(converter.convert())


if __name__ == "__main__":
    main()
