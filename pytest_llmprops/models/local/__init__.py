"""Models in files, run by a runtime on this machine."""
