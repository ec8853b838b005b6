"""Evaluation of cases ahead of pytest, and the planning of their calls."""
