"""Limits, retries, equal requests and queues in front of a model."""
