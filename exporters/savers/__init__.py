"""The Saver that a graph holds, and the .meta that travels with a checkpoint."""
