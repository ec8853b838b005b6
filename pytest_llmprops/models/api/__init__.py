"""Models behind an API: one module per SDK, and what they share."""
