"""The oracle-checker scheme (Zeng, Wang & Ibbetson, "Oracle-Checker Scheme for Evaluating a Generative LLM")."""
