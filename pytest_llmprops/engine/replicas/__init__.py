"""Replicas of local models as actors of a Ray cluster."""
