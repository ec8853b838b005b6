"""Models behind an API: one module per format, and what they share."""
