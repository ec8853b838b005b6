"""Homophones (Liu & Ross, "Examining the Efficacy of LLMs in Comprehending Homophones")."""
