"""The tests of pytest_llmprops."""
