"""Results and reports of Allure: cases, the whole run, and the report in one file."""
