"""A team's site: one static folder on many runs."""
