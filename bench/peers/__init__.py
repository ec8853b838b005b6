"""The same prompts with this package and with other evaluation tools, side by side."""
