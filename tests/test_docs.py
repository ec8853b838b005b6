"""README and docs: options, commands, modules, names, links and gate files are valid, and their code runs."""

from __future__ import annotations

import itertools
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

import pytest_llmprops
from pytest_llmprops.benchmark_registry import registrations
from pytest_llmprops.cli.main import main, parser
from pytest_llmprops.cli.run import project_files
from pytest_llmprops.core.contracts import loaded
from pytest_llmprops.core.items import TaskKey
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.data.files import DataFolder, data_folder
from pytest_llmprops.plugin.options import OPTIONS
from pytest_llmprops.runs.gate.file import misplaced_rules, on_headline_tasks, read_gate
from tests.support.gates import gate_file, judged
from tests.support.recorded import verdicts
from tests.support.runs import ROOT, Runner

HOMOPHONES = ("asked", "context_only", "word_only")
HTEST = (
    "uppercase", "start_vowel", "end_punctuation", "palindrome", "end_ly", "spelled_math", "spelled_number", "rhyme",
    "repeated_word", "hyphenated_word",
)  # fmt: skip

PAGES = [
    ROOT / "README.md",
    ROOT / "AGENTS.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "pytest_llmprops" / "cli" / "project" / "AGENTS.md",
    ROOT / "pytest_llmprops" / "cli" / "project" / "model-upgrade.yml",
]


#: pages that name no llmprops command
WITHOUT_COMMANDS = {"api.md", "architecture.md", "glossary.md", "oracle-reference.md"}


#: the page whose blocks are all files or TOML
EXTENDING = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^\*\*(\S+)\*\*\n\n```\w+\n(.*?)^```", EXTENDING, re.S | re.M))
TOML = re.findall(r"^```toml\n(.*?)^```", EXTENDING, re.S | re.M)


def _gates() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for number, block in enumerate(
            re.findall(r"^ *```toml\n(.*?)^ *```", page.read_text("utf-8"), re.S | re.M)
        ):
            if "[[rule]]" in block:
                yield f"{page.name}-{number}", block


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_what_a_page_names_exists(page: Path) -> None:
    """Every --llm option is one of the plugin's, and every module and relative link is a file of the repository."""
    text = page.read_text("utf-8")
    options = set(re.findall(r"--(llm-[a-z-]+[a-z])", text))
    assert options <= {option.name for option in OPTIONS if not option.is_ini_only}
    tops = (ROOT, ROOT / "pytest_llmprops")
    modules = set(re.findall(r"`([\w./]+/\w+\.py)\b", text))
    assert [name for name in sorted(modules) if not any((top / name).is_file() for top in tops)] == []
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_public_names_are_in_the_reference() -> None:
    """The reference has every public name, and no other. Those of the report kit are generated."""
    text = (ROOT / "docs" / "api.md").read_text("utf-8")
    named = re.findall(r"^::: pytest_llmprops\.(\w+)$", text, re.M)
    assert sorted(named) == sorted(pytest_llmprops.__all__)


@pytest.fixture(scope="module")
def places() -> list[TaskKey]:
    """Return benchmark, task, language and source of the built-in items."""
    found: dict[TaskKey, None] = {}
    for registration in registrations():
        benchmark = registration.load_class()()
        folder = DataFolder(data_folder(registration), "builtin", registration.tools)
        items = loaded(benchmark, folder).items
        tasks = benchmark.tasks_by_answer
        for item in items:
            for task in tasks if item.task in tasks else (item.task,):
                found[TaskKey(benchmark.name, task, item.language, item.source)] = None
    return list(found)


@pytest.mark.parametrize(("name", "text"), [pytest.param(n, t, id=n) for n, t in _gates()])
def test_gate_files_are_accepted(name: str, text: str, tmp_path: Path, places: list[TaskKey]) -> None:
    """Every gate file on a page can be used on the benchmarks of this package, or on that of its page."""
    path = tmp_path / "gate.toml"
    path.write_text(re.sub(r"^ {3}", "", text, flags=re.M), encoding="utf-8")
    gate = read_gate(path)
    if "letters" not in text:
        gate = on_headline_tasks(gate, places)
        gate.check_matches(places)
        assert misplaced_rules(gate, places) == []
        gate.check_metrics({r.name: r.load_class().metric_directions for r in registrations()})


#: of 100 items per task, a candidate loses and gains 3 that the baseline answers right or wrong; what is different
CANDIDATES: dict[str, dict[str, tuple[int, int]]] = {
    "unchanged": {},
    "loses 10 points": {"*": (13, 3)},
    "loses palindrome": {"palindrome": (35, 3)},
    "controls hide a loss": {"asked": (15, 3), "*_only": (0, 20)},
    "loses controls": {"*_only": (40, 0)},
}
PASSES = {"unchanged", "loses controls"}


@pytest.mark.parametrize("candidate", [*CANDIDATES, "is not readable", "refuses"])
def test_gate_of_init_decides_on_candidates(candidate: str, tmp_path: Path) -> None:
    """The gate of `init` passes an unchanged model, and no model that is worse where it looks."""
    gate = gate_file(tmp_path, project_files()["gate.toml"].decode("utf-8"))
    tasks = [("homophones", task, code) for task in HOMOPHONES for code in ("en", "zh", "es")]
    tasks += [("htest", task, "en") for task in HTEST]
    old: list[VerdictRecord] = []
    new: list[VerdictRecord] = []
    for benchmark, task, language in tasks:
        changes = CANDIDATES.get(candidate, {})
        lost, gained = next((c for pattern, c in changes.items() if fnmatchcase(task, pattern)), (3, 3))
        after = "w" * lost + "c" * (75 - lost + gained) + "w" * (25 - gained)
        after = {"is not readable": "u" * 100, "refuses": "r" * 100}.get(candidate, after)
        for records, model, statuses in ((old, "old", "c" * 75 + "w" * 25), (new, "new", after)):
            for record in verdicts(statuses, benchmark=benchmark, task=task, language=language, model=model):
                item = f"{record.id}/{task}/{language}"
                records.append(replace(record, id=item, cluster=item))
    result = judged(gate, new, old)
    assert result.decision == ("pass" if candidate in PASSES else "fail")
    assert ("32.0 points worse on palindrome (H-TEST)" in result.line) == (candidate == "loses palindrome")


def _commands(page: Path) -> Iterator[list[str]]:
    """Yield the arguments of every llmprops command on a page, on separate lines and inside sentences."""
    text = page.read_text("utf-8")
    lines = re.findall(r"^ *(?:\$ |\.venv/bin/)?(llmprops [a-z][^#\n]*)", text, re.M)
    for line in lines + re.findall(r"`(llmprops [a-z][^`\n]*)`", text):
        yield shlex.split(re.sub(r"\[.*?\]|\|\|.*", "", line))[1:]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_are_accepted(page: Path) -> None:
    """Every llmprops command on a page parses; if it is only named or shortened, it exists."""
    commands = list(_commands(page))
    assert bool(commands) != (page.name in WITHOUT_COMMANDS), f"{page.name} has {len(commands)} commands"
    for words in commands:
        named = list(itertools.takewhile(re.compile("[a-z-]+").fullmatch, words))
        if words == named or "…" in words or "..." in words:
            with pytest.raises(SystemExit) as ended:
                parser().parse_args([*named, "--help"])
            assert ended.value.code == 0, words
        else:
            parser().parse_args(words)


#: number of blocks with an output, each of which a test compares with what is printed
OUTPUTS = {"README.md": 1, "extending.md": 2, "gate.md": 1, "runs.md": 3}


def _outputs(page: Path) -> list[str]:
    """Return the blocks without a language, or with ``text``, that no file name precedes."""
    blocks = re.findall(r"([^\n]*)\n\n *```(\w*)\n(.*?)^ *```$", page.read_text("utf-8"), re.M | re.S)
    return [block for before, language, block in blocks if language in ("", "text") and before[-2:] != "**"]


def _is_shown(block: str, output: str) -> bool:
    """Return True if the output has the lines of the block, without a gap except at ``...``, at any speed."""
    parts = re.split(r"^ *\.\.\.\n", re.sub(r"[0-9.]+s$", "0s", block, flags=re.M), flags=re.M)
    rest = re.sub(r"[0-9.]+s$", "0s", output, flags=re.M)
    for part in filter(None, parts):
        _, found, rest = rest.partition(part)
        if not found:
            return False
    return True


def test_every_output_is_compared() -> None:
    """A page with a new block needs a test below, or elsewhere."""
    pages = [page for page in PAGES if page.suffix == ".md"]
    assert {page.name: number for page in pages if (number := len(_outputs(page)))} == OUTPUTS


def test_outputs_of_runs(
    run: Runner, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan, the summary and the comparison are those of the pages' commands."""
    plan, summary, comparison = _outputs(ROOT / "docs" / "runs.md")
    monkeypatch.chdir(run.folder)
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["init", "--overwrite"]) == 0
    width = {"COLUMNS": "120"}
    small = ("suites/test_htest.py", "--llm-size", "small", "-q")
    assert _is_shown(plan, run(*small, "--model", "gpt-4o", "--llm-plan", env=width).output)
    models = {"first": "fake:random?choices=A,B", "second": "fake:random?choices=A,B&seed=2"}
    first, _ = (
        run(*small, "--model", model, "--llm-run", f"reports/runs/{name}", env=width).output
        for name, model in models.items()
    )
    assert _is_shown(summary, first)
    assert main(["compare", "second", "--baseline", "first"]) == 0
    assert _is_shown(comparison, capsys.readouterr().out)


def test_model_example_of_the_docs_runs(run: Runner) -> None:
    """The model registered in docs/models.md answers, also with workers."""
    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    [code] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    run.sums(3)
    run.write("conftest.py", code)
    done = run("--model", "shout:any", "-n", "2")
    assert {v["given"] for v in done.verdicts.values()} == {"0 + 1 =", "1 + 1 =", "2 + 1 ="}


def test_every_block_is_run() -> None:
    """Every block is a named file or TOML; the test below uses both, and the entry points name files."""
    assert len(re.findall(r"^```\w+$", EXTENDING, re.M)) == len(FILES) + len(TOML)
    groups = tomllib.loads(TOML[0])["project"]["entry-points"]
    assert {
        f"{value.partition(':')[0]}.py" for points in groups.values() for value in points.values()
    } < FILES.keys()


#: a test of the page's backend
BACKEND = """
import pytest
from counter_backend import BACKEND
from pytest_llmprops import CallOptions, UsageError
from pytest_llmprops.models.registry import parse_spec

def test_backend():
    assert BACKEND.kinds(parse_spec("counter")) == {"chat"}
    BACKEND.check(parse_spec("counter?speed=1"), CallOptions())
    with pytest.raises(UsageError, match="pitch"):
        BACKEND.check(parse_spec("counter?pitch=1"), CallOptions())
"""


def test_benchmark_of_the_page_is_measured(run: Runner, workers: str) -> None:
    """Benchmark, model, registration and gate of the page work together, as it shows; the backend can be used, too."""
    for name, text in (*FILES.items(), ("test_backend.py", BACKEND)):
        run.write(name, text)
    assert run("test_backend.py").code == 0
    measured, decided = _outputs(ROOT / "docs" / "extending.md")
    width = {"COLUMNS": "120"}
    run.write("gate.toml", TOML[1])
    counter = ("test_letters.py", "--model", "counter", "-q", "--llm-gate", "gate.toml", "-n", workers)
    done = run(*counter, env=width)
    assert done.code == 0, done.output
    assert _is_shown(decided, done.output)
    constant = ("test_letters.py", "--model", "fake:constant?text=5", "-q", "-n", workers)
    assert _is_shown(measured, run(*constant, env=width).output)
    statuses = {name.rpartition("/")[2]: verdict["status"] for name, verdict in done.verdicts.items()}
    assert statuses == {
        "cat": "correct", "sun": "correct", "apple": "correct", "butterfly": "unparsed", "strawberry": "unparsed",
    }  # fmt: skip
    assert done.run["gate"]["decision"] == "pass"
    assert done.run["benchmarks"]["letters"]["controls"] == ["short"]
