"""Preparing a user's own sentences for the linearity test. May read and write files."""
