"""No output for people has a control character of a reply: ``cat`` and terminals would execute it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_llmprops.cli.main import main
from tests.support.runs import Runner

#: NUL, ESC, other C0 and C1 controls, and characters that reorder or hide text
CONTROLS = "\x00\x07\x08\x0b\x1b[2J\x7f\x85\x9b2J\u2028\u202e\u2066\ufeff"
_RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")
ANSWER = f"""
def reply(chat):
    n = int(chat.messages[-1].content.split()[0])
    if n == 4:
        return RuntimeError({CONTROLS!r})
    return {CONTROLS!r} + str(n + 1 if n % 2 else n)
"""


def raw(text: str) -> set[str]:
    """Return the control characters of an output."""
    return set(_RAW.findall(text))


def test_no_output_has_control_characters(
    run: Runner, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor any file that a person reads; the record itself is JSON, and Parquet is not text."""
    pytest.importorskip("allure_pytest")
    run.sums(6)
    run.write("adder.py", ANSWER)
    outputs = ("--junitxml", "junit.xml", "--alluredir", str(run.folder / "allure"), "-v", "-rA")
    first, second = (
        run("--model", run.adder, "-o", "llm_retries=0", *outputs, "-o", "llm_attach=all") for _ in range(2)
    )
    found = {"pytest": raw(first.output)}
    monkeypatch.chdir(run.folder)
    one, other = str(first.folder), str(second.folder)
    tables = ("verdicts", "summary", "metrics", "requests", "searches")
    for arguments in (
        ["runs", "show", one], ["runs", "show", one, "--json"], ["runs", "list"],
        ["compare", one, "--baseline", other, "--full"], ["compare", one, "--baseline", other, "--json"],
        ["compare", one, "--baseline", other, "--markdown", "compare.md"],
        ["report", one, "--out", "report"], ["readings", one, "--sample", "5"], ["site", ".", "--out", "site"],
        *(["runs", "export", one, "--table", table, "--csv", f"{table}.csv"] for table in tables),
        *(["runs", "export", one, "--table", table, "--csv", "-"] for table in tables),
    ):  # fmt: skip
        assert main(arguments) == 0
        printed = capsys.readouterr()
        found[" ".join(arguments)] = raw(printed.out + printed.err)
    records = {first.folder, second.folder}
    names = (".csv", ".md", ".xml", ".txt", ".html", ".json")
    files = [
        file for file in run.folder.rglob("*") if file.suffix in names and not records & set(file.parents)
    ]
    found |= {str(file.relative_to(run.folder)): raw(file.read_bytes().decode()) for file in files}
    assert {name: characters for name, characters in found.items() if characters} == {}
    assert {"junit.xml", "compare.md", "requests.csv", "report/report.html"} <= found.keys()
    assert raw(Path(first.folder / "requests.jsonl").read_text()) != set()
