"""One module for each form that `convert` writes; each has `write(request, progress)`."""
