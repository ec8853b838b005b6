"""The DTAiLS section of a report: tables, figures and one page per concept."""
