"""Intervals, tests of paired differences, and the judgement of two runs."""
