"""The homophones section of a report."""
