"""Parsers: sentences, words, lemmas, parts of speech and dependencies."""
