"""Scripts of TF-Slim and TensorFlow 1 under their old names and flags, run by today's code."""
