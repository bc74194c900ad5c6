"""What is in a graph, told without running it."""
