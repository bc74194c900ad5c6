"""Class folders of JPEGs to TFRecord shards, as TF-Slim's converters do it. Run as a program."""

from __future__ import annotations

import sys
from pathlib import Path

SHARDS = 5


def main() -> None:
    """PICTURES OUT: one session, each picture decoded once for its size, written as it is."""
    import tensorflow as tf

    v1 = tf.compat.v1
    pictures, out = map(Path, sys.argv[1:])
    out.mkdir(exist_ok=True)
    paths = sorted(pictures.glob("*/*.jpg"))
    labels = {name: label for label, name in enumerate(sorted({p.parent.name for p in paths}))}

    def of_bytes(value: bytes) -> object:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))

    def of_number(value: int) -> object:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))

    with tf.Graph().as_default(), v1.Session() as session:
        encoded = v1.placeholder(tf.string)
        decoded = tf.image.decode_jpeg(encoded, channels=3)
        for shard in range(SHARDS):
            target = out / f"flowers_train_{shard:05d}-of-{SHARDS:05d}.tfrecord"
            with tf.io.TFRecordWriter(str(target)) as writer:
                for path in paths[shard::SHARDS]:
                    data = path.read_bytes()
                    height, width, _ = session.run(decoded, {encoded: data}).shape
                    features = {
                        "image/encoded": of_bytes(data),
                        "image/format": of_bytes(b"jpg"),
                        "image/class/label": of_number(labels[path.parent.name]),
                        "image/height": of_number(height),
                        "image/width": of_number(width),
                    }
                    example = tf.train.Example(features=tf.train.Features(feature=features))
                    writer.write(example.SerializeToString())


if __name__ == "__main__":
    main()
