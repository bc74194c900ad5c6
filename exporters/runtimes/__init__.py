"""Models of other runtimes: TFLite and ONNX."""
