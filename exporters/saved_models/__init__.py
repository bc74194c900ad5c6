"""What a SavedModel holds beside its graph."""
