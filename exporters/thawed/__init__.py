"""A frozen graph as a checkpoint and a graph that trains."""
