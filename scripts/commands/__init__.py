"""One module a verb. Heavy imports stand inside the functions: --help loads neither TensorFlow nor numpy."""
