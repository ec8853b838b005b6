"""Chinese word segmenters that run in the pytest processes."""
