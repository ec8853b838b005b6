"""Homophones (Liu & Ross, "Examining the Efficacy of LLMs in Comprehending Homophones").

This module is the registration, and imports none of the others.
"""

from __future__ import annotations

from pytest_llmprops.core.registration import Command, Registration

REGISTRATION = Registration(
    name="homophones",
    benchmark="pytest_llmprops.benchmarks.homophones.benchmark:Homophones",
    section="pytest_llmprops.benchmarks.homophones.report:section",
    suite="pytest_llmprops.suites.test_homophones",
    data="pytest_llmprops.data.files:builtin_data",
    manifest="manifest.tsv",
    printed_results="published_results/homophones.csv",
    commands=Command("homophones: generate items", "pytest_llmprops.benchmarks.homophones.cli:add_commands"),
)
