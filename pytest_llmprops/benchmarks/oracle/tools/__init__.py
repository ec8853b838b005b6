"""Prepare a user's own sentences for the linearity test. These modules may read and write files."""
