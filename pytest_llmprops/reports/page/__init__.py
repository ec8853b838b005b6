"""The report of recorded runs: ``report.md``, ``report.html`` and figures."""

#: the packages of the extra ``report``, which the code below imports
PACKAGES = ("jinja2", "matplotlib")
