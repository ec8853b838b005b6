"""Reading built-in and published data, and pulling published data."""
