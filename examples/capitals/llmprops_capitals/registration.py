"""The registration that the entry point names. It does not import the benchmark."""

from pytest_llmprops import Command, Registration

REGISTRATION = Registration(
    name="capitals",
    benchmark="llmprops_capitals.benchmark:Capitals",
    section="llmprops_capitals.section:section",
    suite="llmprops_capitals.suite",
    commands=Command("capitals: the items", "llmprops_capitals.commands:add_commands"),
)
