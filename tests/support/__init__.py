"""Test machinery: stub servers, runs of pytest in processes, models and records that tests make."""

#: environment variable with the configuration of coverage for processes that are measured
MEASURED = "LLMPROPS_TESTS_COVERAGE"
