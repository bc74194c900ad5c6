"""Changes to graphs, one file each: a graph in, a new graph out."""
