"""Word alignment of sentence pairs: one interface, statistical aligners and one over embeddings."""
