"""Field numbers of the messages that graphs are made of: what writers and proofs share.

Source:
  TensorFlow's saved_model.proto, meta_graph.proto, graph.proto, node_def.proto, attr_value.proto and tensor.proto.
"""

from __future__ import annotations

SAVED_MODEL_VERSION, SAVED_MODEL_META_GRAPH = 1, 2
META_INFO, META_GRAPH, META_SAVER = 1, 2, 3
INFO_VERSION = 5
GRAPH_NODE, GRAPH_LIBRARY, GRAPH_VERSIONS = 1, 2, 4
NODE_NAME, NODE_OP, NODE_INPUT, NODE_DEVICE, NODE_ATTRIBUTE = 1, 2, 3, 4, 5
ENTRY_KEY, ENTRY_VALUE = 1, 2
VALUE_TYPE, VALUE_TENSOR = 6, 8
TENSOR_DTYPE, TENSOR_SHAPE, TENSOR_CONTENT, TENSOR_STRING = 1, 2, 4, 8
