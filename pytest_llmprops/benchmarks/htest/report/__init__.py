"""The H-TEST section of a report."""
