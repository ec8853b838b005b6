"""Before and during a run: ``init``, ``data`` and ``run``."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import distribution
from importlib.resources import files
from itertools import takewhile
from pathlib import Path
from typing import Any

from pytest_llmprops import NEEDS_MODEL, __version__
from pytest_llmprops.benchmark_registry import suites_of
from pytest_llmprops.cli.kit import RUN, Groups, add_group, wrote
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.texts import shell_line
from pytest_llmprops.runs.recorded_command import FROM_RECORD, resume_command

#: instructions for coding agents; a project's own are kept
AGENTS = "AGENTS.md"
#: path in the new project -> file in ``project/``; .txt, because tools read a .py file as part of this package
FILES = {
    "pytest.ini": "pytest.ini",
    "gate.toml": "gate.toml.txt",
    "model.txt": "model.txt",
    ".github/workflows/model-upgrade.yml": "model-upgrade.yml",
    # Folders of their own, because the project may have a .gitignore.
    "reports/.gitignore": "gitignore.txt",
    ".llmprops/.gitignore": "gitignore.txt",
    AGENTS: "AGENTS.md",
    "example/test_capitals.py": "test_capitals.py.txt",
    "example/capitals.jsonl": "capitals.jsonl",
}
#: the margins of the gate by size: suite -> items and ``max_drop``. An unchanged model passes in 90% of runs or more
MARGINS: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "small": {"homophones": (90, "0.12"), "htest": (300, "0.08")},
    "standard": {"homophones": (300, "0.08"), "htest": (1000, "0.05")},
    "full": {"homophones": (633, "0.05"), "htest": (2000, "0.05")},
}
REPOSITORY = "git+https://github.com/pytest-llmprops/pytest-llmprops"
#: what to do after ``init``; the suites and the size are those of the gate
NEXT = """\
See a decision, without a key:   llmprops demo
Count the calls and their cost:  {measure} --model gpt-4o --llm-plan
Measure the model in use:        {measure} --model gpt-4o --llm-max-cost 10 --llm-run reports/runs/first
Keep the run as the baseline:    llmprops runs promote first current
Let CI decide on another model:  commit, and change model.txt in a pull request"""


def add_init(groups: Groups) -> None:
    """Add ``init``."""
    init = groups.add_parser(
        "init",
        help="write suites, pytest.ini, a gate, a CI workflow and an example benchmark",
        description="Write the suites of this package, a pytest.ini, a gate file, a file that names the model, a GitHub"
        " Actions workflow that gates a change of it and measures the model in use each week, files that keep prompts"
        " and replies out of git, instructions for coding agents, and a small benchmark to start from.",
    )
    init.add_argument(
        "folder", nargs="?", type=Path, default=Path(), metavar="DIR", help="default: this folder"
    )
    init.add_argument(
        "--size",
        choices=tuple(MARGINS),
        default="full",
        help="the --llm-size that the gate's margins fit (default: full)",
    )
    init.add_argument("--overwrite", action="store_true", help="replace files that differ")
    init.set_defaults(command=_init)


def _init(options: argparse.Namespace) -> int:
    paths = {options.folder / name: content for name, content in project_files(options.size).items()}
    agents = options.folder / AGENTS
    if agents.is_file() and agents.read_bytes() != paths[agents]:
        del paths[agents]
    differing = [
        str(path)
        for path, content in paths.items()
        if path.exists() and not (path.is_file() and path.read_bytes() == content)
    ]
    if differing and not options.overwrite:
        raise UsageError(
            f"{', '.join(differing)}: already there, nothing was written; pass --overwrite, or name another folder"
        )
    for path, content in paths.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    wrote(paths)
    print(NEXT.format(measure=_measure(options.size)))
    return 0


def _measure(size: str) -> str:
    """Return the command that measures what a gate of ``init`` decides on, without its model."""
    suites = " ".join(f"suites/test_{suite}.py" for suite in MARGINS[size])
    return f"pytest {suites}" + (f" --llm-size {size}" if size != "full" else "")


def _requirement() -> str:
    """Return what pip needs to install this package as it is installed here, with the extras of the workflow.

    PyPI has released versions only. PEP 610: what was installed from elsewhere says where it is from.
    """
    package = "pytest-llmprops[report]"
    origin = json.loads(distribution("pytest-llmprops").read_text("direct_url.json") or "{}")
    if not origin:
        return f"{package}=={__version__}"
    if "vcs_info" in origin:
        return f"{package} @ {origin['vcs_info']['vcs']}+{origin['url']}@{origin['vcs_info']['commit_id']}"
    # CI cannot reach a folder or a file of this machine.
    return f"{package} @ {REPOSITORY}"


def project_files(size: str = "full") -> dict[str, bytes]:
    """Return the content of each file of a new project, by its path.

    :param size: the ``--llm-size`` that the margins of ``gate.toml`` fit.

    The workflow installs this version of the package, so that an upgrade of the package is a change of the project.
    """
    suites, project = files("pytest_llmprops.suites"), files("pytest_llmprops.cli") / "project"
    copied = sorted(file.name for file in suites.iterdir() if re.fullmatch(r"test_\w+\.py", file.name))
    values = {"requirement": _requirement(), "size": size, "measure": _measure(size)}
    for suite, (items, margin) in MARGINS[size].items():
        values |= {suite: margin, f"{suite}_items": f"{items:,}"}

    def filled(content: bytes) -> bytes:
        for name, value in values.items():
            content = content.replace(f"{{{name}}}".encode(), value.encode())
        return content

    return {f"suites/{name}": (suites / name).read_bytes() for name in copied} | {
        path: filled((project / name).read_bytes()) for path, name in FILES.items()
    }


def add_data(groups: Groups) -> None:
    """Add ``data pull``."""
    commands = add_group(groups, "data", "download the published data")
    pull = commands.add_parser("pull", help="download the authors' files and check them against the manifest")
    pull.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="file, folder or pattern from the manifest (default: all except the folder training)",
    )
    pull.add_argument("--dest", type=Path, required=True, metavar="DIR", help="folder to download into")
    pull.add_argument(
        "--base-url", metavar="URL", help="URL template of a mirror, with {repository}, {commit} and {path}"
    )
    pull.set_defaults(command=_pull)


def _pull(options: argparse.Namespace) -> int:
    from pytest_llmprops.data.pull import BASE_URL, pull

    return pull(options.dest, print, files=options.files, base_url=options.base_url or BASE_URL)


class Words(argparse.Action):
    """Keeps all words, except that a call for help is answered."""

    def __call__(
        self, parser: argparse.ArgumentParser, options: argparse.Namespace, words: Any, _: Any = None
    ) -> None:
        if {"-h", "--help"} & set(words):
            parser.print_help()
            parser.exit()
        setattr(options, self.dest, words)


def add_run(groups: Groups) -> None:
    """Add ``run``."""
    run = groups.add_parser(
        "run",
        help="measure a model: run the suites of benchmarks with pytest, or resume a run",
        description="Run the suites of these benchmarks, or of all installed ones, with pytest. Prints the command."
        " Every other option is pytest's, and so is the exit status.",
        epilog="--resume RUN repeats the pytest command of a run with --llm-resume: only cases without a verdict and"
        " errors are measured, and the record of the run is completed. Run it in the folder of the first command. Only"
        " the selection, the options of this package and options of the display are repeated. If the record names an"
        " address that would get a key, or files outside of this folder, and your own settings do not, it asks first.",
        usage=f"llmprops run [BENCHMARK ...] --model SPEC [PYTEST OPTION ...]\n       {_USAGE_OF_RESUME}",
        # pytest's options are unknown here, so that none of them may be read as an option of this command.
        prefix_chars="\0",
        add_help=False,
    )
    run.add_argument(
        "words", nargs="*", action=Words, metavar="BENCHMARK", help="name of an installed benchmark"
    )
    run.set_defaults(command=_run)


_RESUME = "--resume"
_USAGE_OF_RESUME = f"llmprops run {_RESUME} RUN [PYTEST OPTION ...]"


def _run(options: argparse.Namespace) -> int:
    words: list[str] = options.words
    if any(word.partition("=")[0] == _RESUME for word in words):
        name, equals, value = words[0].partition("=")
        if name != _RESUME:
            raise UsageError(f"run: {_RESUME} comes first, and no benchmark: {_USAGE_OF_RESUME}")
        arguments, recorded = resume_arguments([value, *words[1:]] if equals else words[1:])
        # Only pytest knows the ini file and the keys of a .env file.
        os.environ[FROM_RECORD] = recorded
        return _pytest(arguments)
    # Only pytest knows whether its ini file names a model.
    os.environ[NEEDS_MODEL] = "1"
    return _pytest(["--pyargs", *pytest_arguments(words)])


def resume_arguments(words: Sequence[str]) -> tuple[list[str], str]:
    """Return the arguments of pytest that resume the run in the first of ``words``; the others are added.

    :return: the arguments, and the value of the variable ``FROM_RECORD``.
    :raises UsageError: if no run is named, its record has no command that can be repeated here, or it was merged from
        shards.
    """
    from pytest_llmprops.engine.store.location import without_hidden_password
    from pytest_llmprops.runs.catalog import find_run
    from pytest_llmprops.runs.merge import merged_problem
    from pytest_llmprops.runs.reader import read_facts
    from pytest_llmprops.runs.recorded_command import repeated_words

    if not words or words[0].startswith("-"):
        raise UsageError(f"run: name the run after {_RESUME}: {_USAGE_OF_RESUME} ({RUN})")
    folder, own = find_run(words[0]), words[1:]
    facts = read_facts(folder)
    if problem := merged_problem(facts):
        raise UsageError(f"{folder}: {problem}")
    command = facts.options.get("command")
    if not isinstance(command, list):
        raise UsageError(
            f"{folder}: has no pytest command, so it cannot be repeated; it was not recorded by pytest"
        )
    repeated, parts = repeated_words(folder, list(map(str, command)), own, suites_of())
    known = list(map(without_hidden_password, repeated))
    if known != repeated:
        _note(
            "the password of the reply store is not recorded; set PGPASSWORD or PGPASSFILE, or name the store"
            f" again: {resume_command(words[0])} --llm-store URL"
        )
    if parts.left_out:
        _note(
            f"not repeated: {shell_line(*parts.left_out)}; options that load code or write files are not taken from a"
            " record; add after the run those that you need"
        )
    return [*known, "--llm-resume", f"--llm-run={folder}", *own], parts.from_record(folder)


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)


def _pytest(arguments: Sequence[str]) -> int:
    command = [sys.executable, "-m", "pytest", *arguments]
    print(shell_line(*command), flush=True)
    # pytest takes the place of this process, so that signals reach it.
    os.execv(sys.executable, command)  # noqa: S606


def pytest_arguments(words: Sequence[str]) -> list[str]:
    """Return the suites of the benchmarks that ``words`` begin with (all, if none is named), and the other words.

    :raises UsageError: if a benchmark is unknown or has no suite.
    """
    names = list(takewhile(lambda word: not word.startswith("-"), words))
    return [*suites_of(names), *words[len(names) :]]
