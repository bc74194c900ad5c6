"""Paths in cloud storage: gs://, s3:// and what else Apache Beam or TensorFlow opens."""
