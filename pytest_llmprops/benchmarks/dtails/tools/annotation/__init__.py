"""Annotation studies of DTAiLS: sheets, a page to fill them in, agreement and results."""
