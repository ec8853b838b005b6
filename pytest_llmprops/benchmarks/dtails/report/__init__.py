"""The DTAiLS section of a report: tables, figures and a page for each concept."""
