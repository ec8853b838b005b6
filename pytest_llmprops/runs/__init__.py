"""Run records: writing, reading, summaries."""
