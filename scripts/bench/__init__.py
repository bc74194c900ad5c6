"""Figures against peers: cases run alternately, each in a process of its own, and shown as they come out."""
