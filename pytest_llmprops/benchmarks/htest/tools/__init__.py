"""Generate H-TEST items. These modules may read and write files."""
