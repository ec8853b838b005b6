"""Capitals: an example of a benchmark for pytest-llmprops in a distribution of its own."""
