"""One way to a model from every process: its store, its limits and what it records."""
