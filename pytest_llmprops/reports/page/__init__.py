"""The report of recorded runs: ``report.md``, ``report.html`` and figures."""
