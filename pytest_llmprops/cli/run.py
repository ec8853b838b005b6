"""Before and during a run: ``init``, ``suites``, ``data``, ``generate``, ``run`` and ``retry``."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.resources import files
from itertools import takewhile
from pathlib import Path
from typing import Any

from pytest_llmprops import NEEDS_MODEL, __version__
from pytest_llmprops.benchmark_registry import benchmark_names, find_registration, registrations, suites_of
from pytest_llmprops.cli.kit import RUN, Groups, Suggested, add_group, add_registered, print_table, wrote
from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.contracts import loaded
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.items import sized
from pytest_llmprops.core.protocols import resolve
from pytest_llmprops.core.registration import Registration
from pytest_llmprops.core.requests import Kind
from pytest_llmprops.core.texts import shell_line
from pytest_llmprops.data.files import DataFolder, data_folder
from pytest_llmprops.engine.evaluator import Case
from pytest_llmprops.engine.planning import plan
from pytest_llmprops.runs.recorded_command import FROM_RECORD

#: path in the new project -> file in ``project/``; .txt, because tools read a .py file as part of this package
FILES = {
    "pytest.ini": "pytest.ini",
    "gate.toml": "gate.toml",
    "model.txt": "model.txt",
    ".github/workflows/model-upgrade.yml": "model-upgrade.yml",
    "example/test_capitals.py": "test_capitals.py.txt",
    "example/capitals.jsonl": "capitals.jsonl",
}
#: the margins of the gate by size: suite -> items and ``max_drop``. An unchanged model passes in 90% of runs or more
MARGINS: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "small": {"homophones": (90, "0.12"), "htest": (300, "0.08")},
    "standard": {"homophones": (300, "0.08"), "htest": (1000, "0.05")},
    "full": {"homophones": (633, "0.05"), "htest": (2000, "0.05")},
}
NEXT = """\
Try the files without a key:  pytest suites/ example/ --model fake:echo --llm-limit 2
Measure a model:              pytest suites/ --model gpt-4o -n 8
Keep it as the baseline:      llmprops runs promote RUN current
Let CI decide on another one: change model.txt in a pull request"""


def add_init(groups: Groups) -> None:
    """Add ``init``."""
    init = groups.add_parser(
        "init",
        help="write suites, pytest.ini, a gate, a CI workflow and an example benchmark",
        description="Write the suites of this package, a pytest.ini, a gate file, a file that names the model, a GitHub"
        " Actions workflow that gates a change of it, and a small benchmark to start from.",
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
    print(NEXT)
    return 0


def project_files(size: str = "full") -> dict[str, bytes]:
    """Return the content of each file of a new project, by its path.

    :param size: the ``--llm-size`` that the margins of ``gate.toml`` fit.

    The workflow installs the version of this package, so that an upgrade of the package is a change of the project.
    """
    suites, project = files("pytest_llmprops.suites"), files("pytest_llmprops.cli") / "project"
    copied = sorted(file.name for file in suites.iterdir() if re.fullmatch(r"test_\w+\.py", file.name))
    values = {"version": __version__, "size": size}
    for suite, (items, margin) in MARGINS[size].items():
        values |= {suite: margin, f"{suite}_items": f"{items:,}"}

    def filled(content: bytes) -> bytes:
        for name, value in values.items():
            content = content.replace(f"{{{name}}}".encode(), value.encode())
        return content

    return {f"suites/{name}": (suites / name).read_bytes() for name in copied} | {
        path: filled((project / name).read_bytes()) for path, name in FILES.items()
    }


_MODEL = "model"
_CHAT: frozenset[Kind] = frozenset({"chat"})


def add_suites(groups: Groups) -> None:
    """Add ``suites``."""
    suites = groups.add_parser(
        "suites",
        help="the installed benchmarks, their items and calls",
        description="List the installed benchmarks: their built-in items, and the calls that a chat model gets for all"
        " of them with the protocol quick, and with --llm-size small and standard, without stored replies; for"
        " benchmarks that are named, also those with the protocol paper. pytest --llm-plan counts the calls of one"
        " selection.",
    )
    suites.add_argument(
        "benchmarks",
        nargs="*",
        metavar="BENCHMARK",
        choices=Suggested(benchmark_names()),
        help="name of an installed benchmark (default: all)",
    )
    suites.set_defaults(command=_suites)


def _suites(options: argparse.Namespace) -> int:
    chosen = [find_registration(name) for name in options.benchmarks] or registrations()
    # The calls of paper take three times as long to count as the others.
    protocols = ("quick", "paper") if options.benchmarks else ("quick",)
    columns = [f"calls {name}" for name in protocols]
    table: list[tuple[str, ...]] = [("benchmark", "items", *columns, "small", "standard", "what it measures")]
    for registration in chosen:
        benchmark = registration.load_class()()
        quick, *others = (_cases(registration, benchmark, name) for name in protocols)
        for size in ("small", "standard"):
            kept = {item.id for item in sized([case.item for case in quick], benchmark.sizes.get(size, {}))}
            others.append([case for case in quick if case.item.id in kept])
        calls = (f"{_calls(cases):,}" for cases in (quick, *others))
        table.append((benchmark.name, f"{len(quick):,}", *calls, benchmark.about))
    return print_table(table)


def _cases(registration: Registration, benchmark: Benchmark, name: str) -> list[Case]:
    """Return the cases of a chat model, with a helper for every role."""
    folder = DataFolder(data_folder(registration), "builtin", registration.tools)
    protocol = resolve(benchmark.name, benchmark.protocols, name, {}, seed=0)
    part = benchmark.prepared(loaded(benchmark, folder), folder, protocol.settings)
    roles = {role for item in part.items for role in benchmark.roles_of(item.task)}
    helpers = {role: role for role in roles | set(benchmark.helpers(protocol.settings))}
    return [
        Case(benchmark, item, part.context, protocol, _MODEL, helpers=helpers, kinds=_CHAT)
        for item in part.items
        if _CHAT & benchmark.kinds_of(item.task, protocol.settings)
    ]


def _calls(cases: list[Case]) -> int:
    """Return the number of different requests to the model under test, if every reply is empty."""
    labels: list[str] = []
    plan(cases, lambda label, request: labels.append(label))
    return labels.count(_MODEL)


def add_generate(groups: Groups) -> None:
    """Add ``generate NAME`` for each benchmark whose registration has ``generate``."""
    commands = add_group(
        groups, "generate", "generate new items; use them with --llm-source published --llm-data DIR"
    )
    for registration in registrations():
        if registration.generate is not None:
            add_registered(commands, registration.name, registration.generate)


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

    return pull(options.dest, files=options.files or None, base_url=options.base_url or BASE_URL)


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
    """Add ``run`` and ``retry``."""
    run = groups.add_parser(
        "run",
        help="measure a model: run the suites of benchmarks with pytest",
        description="Run the suites of these benchmarks, or of all installed ones, with pytest. Prints the command."
        " Every other option is pytest's, and so is the exit status.",
        usage="llmprops run [BENCHMARK ...] --model SPEC [PYTEST OPTION ...]",
        # pytest's options are unknown here, so that none of them may be read as an option of this command.
        prefix_chars="\0",
        add_help=False,
    )
    run.add_argument(
        "words",
        nargs="*",
        action=Words,
        metavar="BENCHMARK",
        choices=Suggested(benchmark_names()),
        help="name of an installed benchmark",
    )
    run.set_defaults(command=_run)
    retry = groups.add_parser(
        "retry",
        help="measure again what has no verdict in a run, and what ended in an error",
        description="Repeat the pytest command of a run with --llm-resume: only cases without a verdict and errors are"
        " measured, and the record of the run is completed. Run it in the folder of the first command. Only the"
        " selection, the options of this package and options of the display are repeated. If the record names an"
        " address that would get a key, or files outside of this folder, and your own settings do not, it asks first."
        " Prints the command. The exit status is pytest's.",
        usage="llmprops retry RUN [PYTEST OPTION ...]",
        prefix_chars="\0",
        add_help=False,
    )
    retry.add_argument("words", nargs="*", action=Words, metavar="RUN", help=RUN)
    retry.set_defaults(command=_retry)


def _retry(options: argparse.Namespace) -> int:
    arguments, recorded = retry_arguments(options.words)
    # Only pytest knows the ini file and the keys of a .env file.
    os.environ[FROM_RECORD] = recorded
    return _pytest(arguments)


def retry_arguments(words: Sequence[str]) -> tuple[list[str], str]:
    """Return the arguments of pytest that resume the run in the first of ``words``; the others are added.

    :return: the arguments, and the value of the variable ``FROM_RECORD``.
    :raises UsageError: if no run is named, its record has no command that can be repeated here, or it was merged from
        shards.
    """
    from pytest_llmprops.engine.store.location import without_hidden_password
    from pytest_llmprops.runs.catalog import find_run
    from pytest_llmprops.runs.parts import is_merged, merged_problem
    from pytest_llmprops.runs.reader import read_facts
    from pytest_llmprops.runs.recorded_command import repeated_words

    if not words or words[0].startswith("-"):
        raise UsageError(f"retry: name the run first: llmprops retry RUN ({RUN})")
    folder, own = find_run(words[0]), words[1:]
    facts = read_facts(folder)
    if is_merged(facts):
        raise UsageError(f"{folder}: {merged_problem(facts)}")
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
            f" again: {shell_line('llmprops', 'retry', words[0])} --llm-store URL"
        )
    if parts.left_out:
        _note(
            f"not repeated: {shell_line(*parts.left_out)}; options that load code or write files are not taken from a"
            " record; add after the run those that you need"
        )
    return [*known, "--llm-resume", f"--llm-run={folder}", *own], parts.from_record(folder)


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)


def _run(options: argparse.Namespace) -> int:
    arguments = ["--pyargs", *pytest_arguments(options.words)]
    # Only pytest knows whether its ini file names a model.
    os.environ[NEEDS_MODEL] = "1"
    return _pytest(arguments)


def _pytest(arguments: Sequence[str]) -> int:
    command = [sys.executable, "-m", "pytest", *arguments]
    print(shell_line(*command), flush=True)
    if os.name == "posix":
        # pytest takes the place of this process, so that signals reach it.
        os.execv(sys.executable, command)  # noqa: S606
    with subprocess.Popen(command) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                # pytest gets it, too, and ends with its summary.
                continue


def pytest_arguments(words: Sequence[str]) -> list[str]:
    """Return the suites of the benchmarks that ``words`` begin with (all, if none is named), and the other words.

    :raises UsageError: if a benchmark is unknown or has no suite.
    """
    names = list(takewhile(lambda word: not word.startswith("-"), words))
    return [*suites_of(names), *words[len(names) :]]
