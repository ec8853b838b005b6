"""The report kit: what a section of a report is made of."""
