"""The process that writes: what it counts before the calls, records and prints."""
