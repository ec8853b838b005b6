"""H-TEST: what text looks and sounds like (Lee & Lim, "Language Models Don't Learn the Physical
Manifestation of Language").

This module is the registration, and imports none of the others.
"""

from __future__ import annotations

from pytest_llmprops.core.registration import Command, Registration

REGISTRATION = Registration(
    name="htest",
    benchmark="pytest_llmprops.benchmarks.htest.benchmark:HTest",
    section="pytest_llmprops.benchmarks.htest.report:section",
    suite="pytest_llmprops.suites.test_htest",
    data="pytest_llmprops.data.files:builtin_data",
    manifest="manifest.tsv",
    printed_results="published_results/htest.csv",
    commands=Command(
        "H-TEST: generate items, the study with people, fine-tuning",
        "pytest_llmprops.benchmarks.htest.cli:add_commands",
    ),
)
