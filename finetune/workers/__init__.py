"""Several processes that train one run together: each takes its rows of every batch."""
