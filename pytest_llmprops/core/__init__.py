"""Items, requests, replies, verdicts, statistics: no pytest, no I/O."""
