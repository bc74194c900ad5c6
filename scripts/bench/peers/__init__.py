"""What the figures are compared with: the job done with the peer's own tools, as its users write it."""
