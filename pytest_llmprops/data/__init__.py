"""Read built-in and published data, and download published data."""
