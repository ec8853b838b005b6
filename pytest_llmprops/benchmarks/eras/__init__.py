"""ERAS: robustness to local word-boundary ambiguity in Chinese (Li and Hao).

This module is the registration, and imports none of the others.
"""

from __future__ import annotations

from pytest_llmprops.core.registration import Command, Registration

REGISTRATION = Registration(
    name="eras",
    benchmark="pytest_llmprops.benchmarks.eras.benchmark:Eras",
    section="pytest_llmprops.benchmarks.eras.report:section",
    suite="pytest_llmprops.suites.test_eras",
    data="pytest_llmprops.data.files:builtin_data",
    manifest="manifest.tsv",
    printed_results="published_results/eras.csv",
    commands=Command(
        "ERAS: generate pairs, human evaluation, accuracy on sentiment data, training",
        "pytest_llmprops.benchmarks.eras.cli:add_commands",
    ),
    tools={"traditional": "pytest_llmprops.benchmarks.eras.tools.traditional:convert_sentence"},
)
