"""Random numbers for drawn pictures: the same words give the same numbers, now and later."""

from __future__ import annotations

import hashlib

import numpy as np


def generator(*words: str | int) -> np.random.RandomState:
    """A generator whose stream depends on `words` alone.

    numpy promises that the streams of RandomState never change, which it does not of its newer
    generators: a picture drawn today is drawn again by a later version.
    """
    text = "/".join(str(word) for word in words)
    return np.random.RandomState(np.frombuffer(hashlib.sha256(text.encode()).digest(), "<u4"))


def pick(random: np.random.RandomState, weights: dict[str, float]) -> str:
    """One of the names, each as likely as its weight says."""
    names = list(weights)
    edges = np.cumsum(list(weights.values()))
    return names[int(np.searchsorted(edges, random.uniform(0, edges[-1]), side="right"))]
