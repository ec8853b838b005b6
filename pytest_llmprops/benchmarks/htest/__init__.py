"""H-TEST: what text looks and sounds like (Lee & Lim, "Language Models Don't Learn the Physical
Manifestation of Language")."""
