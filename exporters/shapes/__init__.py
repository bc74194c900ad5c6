"""Shapes of tensors, followed through a graph without running it."""
