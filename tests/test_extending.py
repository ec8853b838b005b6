"""Every code block of docs/extending.md runs."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from pytest_llmprops import benchmark_registry
from pytest_llmprops.cli.main import main
from pytest_llmprops.models import registry
from tests.support.runs import ROOT, Runner

PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^\*\*(\S+)\*\*\n\n```\w+\n(.*?)^```", PAGE, re.S | re.M))
TOML = re.findall(r"^```toml\n(.*?)^```", PAGE, re.S | re.M)


def test_every_block_is_run() -> None:
    """Every block is a named file or TOML; the tests below use both."""
    assert len(re.findall(r"^```\w+$", PAGE, re.M)) == len(FILES) + len(TOML)


@pytest.fixture
def folder(run: Runner, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write all files of the page to an importable folder, install its entry points, and return the folder."""
    for name, text in FILES.items():
        run.write(name, text)
    monkeypatch.syspath_prepend(run.folder)
    groups = tomllib.loads(TOML[0])["project"]["entry-points"]
    points = {
        group: {name: EntryPoint(name, value, group) for name, value in entries.items()}
        for group, entries in groups.items()
    }
    monkeypatch.setattr(
        benchmark_registry, "installed_entry_points", lambda: points["pytest_llmprops.benchmarks"]
    )
    monkeypatch.setattr(benchmark_registry, "registered", {})
    backends = {name: point.load for name, point in points["pytest_llmprops.models"].items()}
    monkeypatch.setattr(registry, "entries", backends)
    monkeypatch.setattr(registry, "registered", {})
    for name in [name for name in sys.modules if f"{name}.py" in FILES]:
        monkeypatch.delitem(sys.modules, name)
    return run.folder


def test_benchmark_of_the_page_is_measured(
    run: Runner, folder: Path, workers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Benchmark, model, registration, gate, report section and command of the page work together."""
    gate = run.write("gate.toml", TOML[1])
    done = run("test_letters.py", "--model", "counter", "--llm-gate", str(gate), "-n", workers)
    assert done.code == 0, done.output
    statuses = {name.rpartition("/")[2]: verdict["status"] for name, verdict in done.verdicts.items()}
    assert statuses == {
        "cat": "correct", "sun": "correct", "apple": "correct", "butterfly": "unparsed", "strawberry": "unparsed",
    }  # fmt: skip
    assert done.run["gate"]["decision"] == "pass"
    assert done.run["benchmarks"]["letters"]["controls"] == ["short"]
    assert main(["letters", "words"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "strawberry"
    pytest.importorskip("matplotlib")
    assert main(["report", str(done.folder), "--out", str(folder / "report")]) == 0
    page = (folder / "report" / "report.html").read_text(encoding="utf-8")
    assert "Letter counts" in page
    assert (folder / "report" / "figures" / "letters-off-by-one.svg").is_file()


def test_backend_of_the_page_serves_chats(folder: Path) -> None:
    backend = registry.find_backend("counter")
    assert backend.kinds(registry.parse_spec("counter")) == {"chat"}
