"""Concepts with variations, mined from a parallel corpus."""
