"""The gate: its file, the data of its rules, their checks, sequential decisions, and the decision on a run."""
