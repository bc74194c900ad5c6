"""The documentation as a site: pages written by hand, and pages made of the code."""
