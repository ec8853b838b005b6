"""The commands for a start: `init`, `run`, `models`, `suites`, `completion` and `--version`."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_llmprops import NEEDS_MODEL, Benchmark, Registration, __version__, benchmark_registry
from pytest_llmprops.benchmark_registry import benchmark_names, find_benchmark, find_registration
from pytest_llmprops.cli.main import main
from pytest_llmprops.cli.run import MARGINS, REPOSITORY, project_files
from pytest_llmprops.core.items import ItemPlace
from pytest_llmprops.models import registry
from pytest_llmprops.models.registry import ALIASES, Backend, backend_names
from pytest_llmprops.records.run import RunMetadata
from pytest_llmprops.reports.allure.site import VERSION
from pytest_llmprops.runs.gate.file import read_gate
from pytest_llmprops.runs.gate.forecast import builtin_items, forecast
from tests.support.commands import one_error, output
from tests.support.gated_runs import command
from tests.support.runs import Runner

SUITES = "pytest_llmprops.suites.test_"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Print tables without wrapping."""
    monkeypatch.setenv("COLUMNS", "1000")


def test_run_becomes_a_pytest_command(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """Names become suites; all other words go to pytest as they are; the command can be pasted into a shell."""
    started = []
    # Restored at the end of the test.
    monkeypatch.setenv(NEEDS_MODEL, "")

    def execv(path: str, command: list[str]) -> None:
        assert path == command[0] == sys.executable
        assert os.environ[NEEDS_MODEL]
        started.append(command)
        sys.exit()

    monkeypatch.setattr(os, "execv", execv)
    every = [f"{SUITES}{name}" for name in benchmark_names()]
    for words, expected in (
        (["eras", "htest", "eras", "-k", "a b"], [f"{SUITES}eras", f"{SUITES}htest", "-k", "a b"]),
        (["-n", "8", "--version"], [*every, "-n", "8", "--version"]),
    ):
        with pytest.raises(SystemExit):
            main(["run", *words])
        assert started == [[sys.executable, "-m", "pytest", "--pyargs", *expected]]
        assert shlex.split(capsys.readouterr().out) == started.pop()


def test_wrong_words_of_a_run_are_one_line(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """A run is resumed with its own benchmarks, and pytest's options follow its name; a benchmark needs a suite."""
    mine = Registration(name="mine", benchmark=Benchmark)
    monkeypatch.setattr(benchmark_registry, "registered", {"mine": mine})
    for words, said in (
        ("mine", "benchmark mine has no suite"),
        ("htest --resume x", "--resume comes first, and no benchmark: llmprops run --resume RUN"),
        ("--resume -q", "name the run after --resume"),
        ("--resume=nosuch", "no run 'nosuch'"),
    ):
        assert said in one_error(capsys, "run", *words.split())


def test_init_writes_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """A second `init` changes nothing; a changed file is refused by name and replaced only with `--overwrite`.

    A project's own AGENTS.md is kept always, and git sees neither prompts nor replies.
    """
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "AGENTS.md"
    own.write_text("# Ours\n", encoding="utf-8")
    assert main(["init"]) == 0
    names = project_files()
    suites = {f"suites/test_{name}.py" for name in benchmark_names()}
    assert set(names) > {"gate.toml", "model.txt", "example/test_capitals.py"} | suites
    assert {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()} == set(names)
    assert set(names) & set(capsys.readouterr().out.splitlines()) == set(names) - {"AGENTS.md"}
    gate, suite = tmp_path / "gate.toml", tmp_path / "suites" / "test_htest.py"
    gate.write_text("# mine\n", encoding="utf-8")
    suite.unlink()
    assert one_error(capsys, "init").startswith("llmprops: gate.toml: already there, nothing was written;")
    assert gate.read_text(encoding="utf-8") == "# mine\n"
    assert not suite.exists()
    assert main(["init", "--overwrite"]) == 0
    assert gate.read_bytes() == names["gate.toml"]
    assert suite.read_bytes() == names["suites/test_htest.py"]
    assert own.read_text(encoding="utf-8") == "# Ours\n"
    for name in ("reports/runs/one/requests.jsonl", ".llmprops/store.sqlite"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a reply", encoding="utf-8")
    subprocess.run(["git", "init", "--quiet"], check=True)
    subprocess.run(["git", "add", "."], check=True)
    staged = subprocess.run(
        ["git", "diff", "--cached", "--name-only"], stdout=subprocess.PIPE, text=True, check=True
    )
    assert set(staged.stdout.split()) == {*names}


def test_commands_of_init_work(run: Runner) -> None:
    """The commands that `init` prints and that AGENTS.md names: the plan sends nothing, and the example passes.

    The example has at most 25 lines.
    """
    done = command(run, "init", "--size", "small", "--overwrite")
    printed = done.output.splitlines()
    [plan] = [line.partition(":  ")[2] for line in printed if "--llm-plan" in line]
    assert "test_homophones.py suites/test_htest.py --llm-size small --model gpt-4o" in plan
    planned = run(*shlex.split(plan)[1:])
    assert "llmprops plan: no call is made" in planned.output
    [example] = re.findall(
        "^    pytest (example/ .*)", (run.folder / "AGENTS.md").read_text(encoding="utf-8"), re.M
    )
    assert run(*shlex.split(example), "-q").output.splitlines()[-1].startswith("3 passed")
    code = (run.folder / "example" / "test_capitals.py").read_text(encoding="utf-8")
    assert len([line for line in code.splitlines() if line.strip()]) <= 25


#: from where pip got the package, as PEP 610 records it, and what CI installs; it cannot reach a folder of this machine
ORIGINS = {
    None: f"=={__version__}",
    '{"url": "https://x.org/a.git", "vcs_info": {"vcs": "git", "commit_id": "b"}}': " @ git+https://x.org/a.git@b",
    '{"url": "file:///a", "dir_info": {"editable": true}}': f" @ {REPOSITORY}",
}


def test_the_workflow_installs_what_is_installed_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The version of an index, the commit of a repository, or else the newest commit."""
    for origin, requirement in ORIGINS.items():
        installed = SimpleNamespace(read_text=lambda name, origin=origin: origin)
        monkeypatch.setattr("pytest_llmprops.cli.run.distribution", lambda name, found=installed: found)
        workflow = project_files()[".github/workflows/model-upgrade.yml"].decode("utf-8")
        assert f"run: pip install 'pytest-llmprops[report]{requirement}'\n" in workflow
    # The version of Allure is that of `make report`.
    assert f"npm install --global allure@{VERSION}\n" in workflow


@pytest.mark.parametrize("size", ["small", "standard", "full"])
def test_an_unchanged_model_passes_the_gate_of_init(size: str, tmp_path: Path) -> None:
    """In 90% of runs or more at the size that the margins are for; a comment has the numbers of items."""
    path = tmp_path / "gate.toml"
    path.write_bytes(project_files(size)["gate.toml"])
    gate = read_gate(path)
    items: list[ItemPlace] = []
    for name, (number, margin) in MARGINS[size].items():
        benchmark = find_benchmark(name)
        places = [p for p in builtin_items(gate) if p.benchmark == name and p.task not in benchmark.controls]
        most = benchmark.sizes.get(size, {})
        groups: dict[tuple[str, str], list[Any]] = {}
        for place in places:
            groups.setdefault((place.task, place.language), []).append(place)
        kept = [place for (task, _), group in groups.items() for place in group[: most.get(task, len(group))]]
        counted = [place for place in kept if place.task not in benchmark.side_tasks]
        assert len(counted) == number
        assert f"max_drop = {margin}  # {number:,} items" in path.read_text(encoding="utf-8")
        items += counted
    assert forecast(gate, items, RunMetadata("")).whole[0].passed >= 0.9


def test_models_lists_every_provider_without_values(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """Each backend and alias has a line; keys are set or not set; a missing package names its extra.

    A backend of another package that cannot be imported has a line with the reason.
    """
    find = importlib.util.find_spec

    def without_litellm(name: str, package: str | None = None) -> Any:
        return None if name == "litellm" else find(name, package)

    def load() -> Backend:
        raise ImportError("no module named absent")

    monkeypatch.setattr(importlib.util, "find_spec", without_litellm)
    monkeypatch.setattr(registry, "installed_entry_points", lambda: {"broken": load})
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    printed = output(capsys, "list", "models")
    lines = {line.split()[0]: line for line in printed.splitlines()[1:]}
    assert set(lines) == {*backend_names(), *ALIASES}
    assert lines["broken"].endswith("does not work: ImportError: no module named absent")
    assert lines["openai"].endswith("OPENAI_API_KEY (set)")
    assert lines["gemini"].endswith("pip install 'pytest-llmprops[litellm]'; GEMINI_API_KEY (not set)")
    assert lines["ollama"].endswith("a server at http://localhost:11434/v1")
    assert "segment" in lines["jieba"]
    assert "sk-secret" not in printed


def test_models_lists_prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """`--prices` lists the prices that apply, each with its date; the user's file comes first."""
    file = tmp_path / "mine.json"
    file.write_text('{"date": "2026-01-02", "usd_per_million_tokens": {"mine": [1, 2.5]}}', encoding="utf-8")
    monkeypatch.setenv("LLMPROPS_PRICES", str(file))
    _, *lines, origin = output(capsys, "list", "--prices").splitlines()
    rows = {line.split()[0]: line.split(maxsplit=4)[1:] for line in lines}
    assert rows["mine"] == ["1", "unknown", "2.5", "mine.json, 2026-01-02"]
    assert rows["gpt-4o"][3].startswith(("table of 20", "litellm "))
    assert "MIT license" in origin
    assert "add --prices" in one_error(capsys, "list", "--out", file)


def test_suites_counts_items_and_calls(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """DTAiLS asks a chat model to select and to translate: 3 calls per 2 items with quick.

    Without names, benchmarks and models are listed, and no calls are counted: that takes half a minute for all.
    """
    header, *lines = (line.split() for line in output(capsys, "list", "dtails", "htest").splitlines())
    assert header[:2] == ["benchmark", "items"]
    assert [line[:6] for line in lines] == [
        ["dtails", "624", "936", "2,184", "216", "936"],
        ["htest", "2,104", "2,104", "2,104", "330", "1,100"],
    ]
    assert "unknown benchmark 'nosuch'" in one_error(capsys, "list", "nosuch")
    monkeypatch.delattr("pytest_llmprops.cli.listing.plan")
    monkeypatch.setattr("pytest_llmprops.cli.listing.registrations", lambda: [find_registration("htest")])
    header, line = (line.split() for line in output(capsys, "list", "suites").splitlines())
    assert header[:4] == ["benchmark", "items", "small", "standard"]
    assert line[:4] == ["htest", "2,104", "330", "1,100"]
    listed = output(capsys, "list").splitlines()
    assert listed[1].startswith("htest")
    assert {"openai", "anthropic"} <= {line.split()[0] for line in listed[3:]}


def test_help_and_misspelled_commands(capsys: Capture) -> None:
    """`--version` prints that of the package, and `run --help` is about this command, not pytest.

    A misspelled command, also one of a command, is answered with the nearest.
    """
    for words, status, said in (
        ("--version", 0, f"pytest-llmprops {__version__}\n"),
        ("run htest --help", 0, "usage: llmprops run [BENCHMARK ...] --model SPEC"),
        ("comapre a", 2, "); did you mean compare?\n"),
        ("lab htst", 2, "); did you mean htest?\n"),
        ("xyzzy", 2, ")\n"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(words.split())
        assert ended.value.code == status
        printed = capsys.readouterr()
        assert printed.err.endswith(said) if status else printed.out.startswith(said)
    assert "did you mean htest?" in one_error(capsys, "list", "htst")
