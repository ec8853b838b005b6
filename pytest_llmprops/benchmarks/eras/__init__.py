"""ERAS: robustness to local word-boundary ambiguity in Chinese (Li and Hao)."""
