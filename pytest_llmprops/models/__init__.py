"""The backends, one module each, their registry, and the fake model. Their packages are imported at the first request."""
