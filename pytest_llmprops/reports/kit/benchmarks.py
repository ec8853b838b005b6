"""The section of a benchmark in the report: the one in its registration, or the generic one."""

from __future__ import annotations

from dataclasses import replace

from pytest_llmprops.benchmark_registry import benchmark_names, find_registration
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.reports.kit import generic
from pytest_llmprops.reports.kit.blocks import Section
from pytest_llmprops.reports.kit.series import Measured


def section_of(measured: Measured) -> Section:
    """Return a benchmark's section with its title.

    :raises UsageError: if the registration's section is not a function that returns a :class:`Section`.
    """
    name = measured.benchmark
    make = find_registration(name).load("section") if name in benchmark_names() else None
    section = (make or generic.section)(measured)
    if not isinstance(section, Section):
        raise UsageError(f"benchmark {name}, section: returns {section!r}, not a Section")
    return replace(section, key=name, title=measured.facts.title, about=measured.facts.about)
