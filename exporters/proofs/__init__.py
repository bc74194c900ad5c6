"""Proofs that what was written is what it was made from."""
