"""The backends, one module each, their registry, and the fake model. SDKs are imported when a model is created."""
