"""Check that runs beside other pytest plugins have the verdicts of a run without them: ``python .ci/check_plugins.py``.

Run it where this package and the plugins can be imported. A suite of 20 cases has pytest's functions as items; one
of 400 has light items, or ordinary ones if a plugin needs them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

SUITE = """
import pytest
from pytest_llmprops import Benchmark, Chat, Item, Verdict


class Sums(Benchmark):
    name = "sums"

    def load(self, files):
        return [Item(f"sums/{n:04d}", "add", "en", fields={"n": n}) for n in range(CASES)]

    async def evaluate(self, item, context, ask, protocol):
        reply = await ask(Chat.user(f"{item['n']} + 1 = ?", temperature=0.0, max_tokens=8))
        return Verdict.check(reply.text == str(item["n"] + 1), expected=str(item["n"] + 1), given=reply.text)


@pytest.mark.llmprops(benchmark=Sums)
def test_sums(verdict):
    assert verdict
"""
#: wrong for each seventh number
MODEL = """
def reply(chat):
    n = int(chat.messages[-1].content.split()[0])
    return str(n if n % 7 == 3 else n + 1)
"""
#: distribution -> the options with which its plugin does something
PLUGINS: dict[str, Sequence[str]] = {
    "pytest-randomly": (),
    "pytest-rerunfailures": ("--reruns", "1"),
    "pytest-timeout": ("--timeout", "60"),
    "pytest-cov": ("--cov", ".", "--cov-report", ""),
    "pytest-html": ("-p", "metadata", "--html", "report.html"),
    "pytest-sugar": ("--force-sugar",),
    "pytest-split": ("--splits", "1", "--group", "1"),
    "pytest-repeat": ("--count", "2"),
    "pytest-json-report": ("-p", "metadata", "--json-report"),
    "pytest-reportlog": ("--report-log", "log.jsonl"),
}
OURS = ("-p", "llmprops", "-p", "xdist")


def verdicts(folder: Path, *options: str) -> tuple[int, dict[str, str]]:
    """Return the exit code of a run in ``folder``, and the status of each item.

    :raises SystemExit: if the run has no record.
    """
    run = f"run-{len(list(folder.glob('run-*')))}"
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *OURS, *options, "test_sums.py", "--model",
        "fake:call?file=model.py", "--llm-run", run, "--llm-cache", "off",
    ]  # fmt: skip
    env = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    try:
        lines = (folder / run / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()
    except OSError:
        sys.exit(f"no record: {' '.join(command)}\n{done.stdout}{done.stderr}")
    records = [json.loads(line) for line in lines]
    return done.returncode, {record["id"]: record["status"] for record in records}


def loaded(plugin: str) -> list[str]:
    """Return the options that load a plugin and let it do something."""
    entries = metadata.distribution(plugin).entry_points.select(group="pytest11")
    return [*(word for entry in entries for word in ("-p", entry.name)), *PLUGINS[plugin]]


def check(cases: int) -> list[str]:
    """Return one line per run of a suite with ``cases`` cases that differs from one without other plugins.

    The plugins have runs together, and beside light items one each. pytest-sugar is never with the others: its bar
    cannot show more reports than cases, which those that repeat cases send.
    """
    workers = "0" if cases < 100 else "2"
    together = [word for plugin in PLUGINS if plugin != "pytest-sugar" for word in loaded(plugin)]
    runs = {
        f"all but pytest-sugar, -n {workers}": [*together, "-n", workers],
        f"pytest-sugar, -n {workers}": [*loaded("pytest-sugar"), "-n", workers],
    }
    if cases > 100:
        runs |= {f"{plugin}, -n 0": [*loaded(plugin), "-n", "0"] for plugin in PLUGINS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        (folder / "test_sums.py").write_text(SUITE.replace("CASES", str(cases)), encoding="utf-8")
        (folder / "model.py").write_text(MODEL, encoding="utf-8")
        expected = verdicts(folder)
        assert expected[0] == 1
        assert list(expected[1].values()).count("wrong") == len(range(3, cases, 7))
        return [
            f"{plugins}, {cases} cases: other verdicts or exit code"
            for plugins, options in runs.items()
            if verdicts(folder, *options) != expected
        ]


if __name__ == "__main__":
    differing = check(20) + check(400)
    sys.exit("\n".join(differing) or 0)
