"""Test machinery: stub servers, runs of pytest in processes, models and records that tests make."""
