"""Mine concepts with variations from a parallel corpus."""
