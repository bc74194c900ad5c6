"""A training run: its graph, its options, its checkpoints and its end."""
