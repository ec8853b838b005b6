"""The ERAS section of a report."""
