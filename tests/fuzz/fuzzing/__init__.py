"""Mutated files for every reader: mutations, the readers with their files, and the runner."""
