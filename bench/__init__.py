"""Benchmarks of the engine: ``python -m bench``."""
