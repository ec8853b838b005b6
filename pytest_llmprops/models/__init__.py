"""The backends, one module each, their registry, and the fake model. Packages are imported at the first request."""
