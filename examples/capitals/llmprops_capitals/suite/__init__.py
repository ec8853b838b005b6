"""The benchmark's test functions: ``pytest --pyargs llmprops_capitals.suite --model SPEC``."""
