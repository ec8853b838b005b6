"""The suites: ``pytest --pyargs pytest_llmprops.suites --model SPEC``."""
