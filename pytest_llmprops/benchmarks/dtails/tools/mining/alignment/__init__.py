"""Word alignment of sentence pairs: the interface, statistical aligners, and an aligner over embeddings."""
