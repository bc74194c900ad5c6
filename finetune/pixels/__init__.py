"""What is done to pixels, as TensorFlow operations on one picture; one module a kind."""
