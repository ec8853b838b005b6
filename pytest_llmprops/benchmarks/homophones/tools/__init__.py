"""Generate homophone items and import the published verdicts. These modules may read and write files."""
