"""Generating and mining ERAS items, the human evaluation, and labelled sentiment files. May read and write files."""
