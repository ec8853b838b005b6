"""Generating homophone items, and importing the published verdicts. May read and write files."""
