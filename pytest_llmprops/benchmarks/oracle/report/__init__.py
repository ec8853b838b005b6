"""The oracle-checker section of a report."""
