"""Test items: their markers, cases and reports."""
