"""The gate: its file, the data of its rules, their checks, and the decision on a run."""
