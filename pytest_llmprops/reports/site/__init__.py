"""A site of many runs: one static folder, or pages that this machine serves with the progress of running runs."""
