"""Generating H-TEST items. May read and write files."""
