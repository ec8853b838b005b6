"""A case's typed report is sent inside pytest's report, where no other plugin sees it."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

from tests.support.runs import Runner

WATCH = """
import json
import pytest

SEEN = []


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report):
    SEEN.append([report.when, [name for name, _ in report.user_properties], sorted(vars(report))])


def pytest_unconfigure(config):
    if not hasattr(config, "workerinput"):
        with open("seen.json", "w") as file:
            json.dump(SEEN, file)
"""


def test_other_plugins_see_no_typed_report(run: Runner, workers: str) -> None:
    """Other plugins see a report with the JUnit properties and pytest's own attributes only."""
    run.sums(6)
    run.write("conftest.py", WATCH)
    xml = run.folder / "junit.xml"
    done = run("--model", run.adder, "-n", workers, f"--junitxml={xml}", "-o", "junit_family=xunit1")
    assert len(done.verdicts) == 6
    seen = json.loads((run.folder / "seen.json").read_text(encoding="utf-8"))
    assert sum(when == "call" for when, _, _ in seen) == 6
    names = {name for _, properties, _ in seen for name in properties}
    assert "llmprops.status" in names
    assert {name for name in names if not name.startswith("llmprops.")} == set()
    assert not [name for _, _, attributes in seen for name in attributes if "llmprops" in name]
    written = {p.get("name") for p in ET.parse(xml).getroot().iter("property")}
    assert written == names
