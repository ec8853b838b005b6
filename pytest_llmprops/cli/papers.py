"""``papers``: every table and figure of the papers, the command that measures it, and a model's own row."""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_llmprops import NEEDS_MODEL
from pytest_llmprops.cli.kit import Groups, print_table, recorded, wrote
from pytest_llmprops.cli.run import Words, pytest_arguments
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.data.published_results import TABLE_COLUMNS, PaperTable, PublishedResult, load_tables
from pytest_llmprops.data.whole_files import write_text
from pytest_llmprops.reports.tables import markdown_table
from pytest_llmprops.runs.paper_results import AT_LEAST, own_results, run_notes

if TYPE_CHECKING:
    from pytest_llmprops.reports.kit.blocks import Figure, Table
    from pytest_llmprops.runs.reader import Run

_RUN = ("llmprops", "run")
#: the word of a further command that stands for the folder of each run, such as ``--run RUN``
_FOLDER = "RUN"
#: the fields of a printed figure that tell rows and columns apart; those after a table's ``rows`` make its columns
_FIELDS = ("model", "k", "language", "task", "setting", "metric")
#: Figures that are printed as they are. All others are shares, which are shown in percent.
_NOT_SHARES = re.compile(
    r"(_count|_kappa|pabak|_correlation|_probability|calls_per_sentence|variations_per_concept)$"
)
#: a setting of a listed command whose value the user gives
_SETTING = re.compile(r"(\w+\.\w+)=[A-Z]+")
Rows = list[tuple[str, ...]]


def add_papers(groups: Groups) -> None:
    """Add ``papers``."""
    papers = groups.add_parser(
        "papers",
        help="the tables and figures of the papers, and a model's figures next to them",
        description="List the tables, figures and numbered results of the five papers, with the command that measures"
        " each and whether it can be measured here. With the name of a paper, list its own; with the name of a table,"
        " print its figures. --model SPEC (repeatable) prints the plan, runs the suite with the protocol paper, and"
        " prints your figures next to the paper's; repeat the command to resume. --run RUN (repeatable) takes"
        " recorded runs instead. --csv prints CSV. --out DIR writes table.md, table.csv (a second table is table-2.csv)"
        " and the figures of the report."
        " Every other option is pytest's.",
        usage="llmprops papers [PAPER | PAPER/TABLE] [--model SPEC ... [PYTEST OPTION ...] | --run RUN ...] [--csv]"
        " [--out DIR]",
        # pytest's options are unknown here, so that none of them may be read as an option of this command.
        prefix_chars="\0",
        add_help=False,
    )
    papers.add_argument(
        "words",
        nargs="*",
        action=Words,
        metavar="NAME",
        help="a paper, or a table such as htest/table-6",
    )
    papers.set_defaults(command=_papers)


def _papers(options: argparse.Namespace) -> int:
    words = list(options.words)
    name = words.pop(0) if words and not words[0].startswith("-") else ""
    own = argparse.ArgumentParser(prog="llmprops papers", add_help=False, allow_abbrev=False)
    own.add_argument("--model", "--llm-model", action="append", default=[])
    own.add_argument("--run", action="append", default=[])
    own.add_argument("--csv", action="store_true")
    own.add_argument("--out", type=Path)
    chosen, others = own.parse_known_args(words)
    tables = [table for table in load_tables() if name in ("", table.paper, table.id)]
    if not tables:
        raise UsageError(f"papers: no paper or table {name!r}; `llmprops papers` lists them")
    if others and not chosen.model:
        raise UsageError(f"papers: {others[0]}: needs --model SPEC")
    if chosen.model and chosen.run:
        raise UsageError("papers: give --model to measure, or --run to collect recorded runs, not both")
    if "/" not in name:
        if chosen.model or chosen.run:
            raise UsageError("papers: name one table: llmprops papers htest/table-6")
        return _list(tables, chosen)
    [table] = tables
    runs = [recorded(run) for run in chosen.run]
    missing: list[str] = []
    if chosen.model:
        status, folders, missing = _measure(table, chosen.model, others)
        if status or not folders:
            return status
        runs = [recorded(str(folder)) for folder in folders]
    return _show(table, runs, chosen.csv, chosen.out, missing)


def _list(tables: Sequence[PaperTable], chosen: argparse.Namespace) -> int:
    rows: Rows = [TABLE_COLUMNS, *(tuple(getattr(t, name) for name in TABLE_COLUMNS) for t in tables)]
    if chosen.out is not None:
        return wrote(_write(chosen.out, _markdown(rows) + "\n", rows))
    if chosen.csv:
        print(_csv(rows), end="")
        return 0
    return print_table(
        [("name", "state", "figures", "title and command"), *(
            (t.id, t.state, str(len(t.results) or ""), "; ".join(filter(None, (t.title, t.command or t.reason))))
            for t in tables
        )]
    )  # fmt: skip


def _commands(table: PaperTable) -> list[list[str]]:
    return [shlex.split(command) for command in table.command.split(" && ")]


def suite_runs(table: PaperTable) -> list[list[str]]:
    """Return the words after ``llmprops run`` of each command.

    The word after ``--model`` is a placeholder: ``SPEC`` for all models, or ``KIND_SPEC`` (``CHAT_SPEC``) for those
    that serve this kind of request. A value in capitals after ``--llm-set`` is one, too: the user gives it.

    :raises UsageError: if the table is not made from runs of a suite.
    """
    commands = [words for words in _commands(table) if _FOLDER not in words]
    if any(tuple(words[:2]) != _RUN for words in commands) or table.state == "cannot":
        how = f"; use {table.command}" if table.command else ""
        reason = f" {table.reason.rstrip('.')}" if table.reason else " it is not measured by one suite"
        raise UsageError(f"{table.id}: no command here measures it for a model:{reason}{how}")
    return [words[2:] for words in commands]


def _filled(
    runs: Sequence[Sequence[str]], models: Sequence[str], others: Sequence[str]
) -> tuple[list[list[str]], list[str]]:
    """Return the words of each run with the user's models and options, and what is missing for the other runs.

    :param others: the user's other options. A setting for which a run has a placeholder goes to this run alone.
    """
    from pytest_llmprops.models.registry import find_backend, parse_spec

    own = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    own.add_argument("--llm-set", action="append", default=[])
    own.add_argument("--llm-base-url")
    known, rest = own.parse_known_args(list(others))
    rest += ["--llm-base-url", known.llm_base_url] if known.llm_base_url else []
    names = {match[1] for words in runs for word in words if (match := _SETTING.fullmatch(word))}
    values: dict[str, str] = {}
    for word in known.llm_set:
        name = word.partition("=")[0]
        if name in names:
            values[name] = word
        else:
            rest += ["--llm-set", word]
    filled, missing = [], []
    for run in runs:
        words, unset = list(run), ""
        for place, word in enumerate(words):
            if match := _SETTING.fullmatch(word):
                words[place] = values.get(match[1], word)
                unset = "" if match[1] in values else f"--llm-set {word}"
        place = words.index("--model")
        kind = words[place + 1].removesuffix("SPEC").removesuffix("_").lower()
        chosen = []
        for model in models:
            spec = parse_spec(model, base_url=known.llm_base_url)
            if not kind or kind in find_backend(spec.backend).kinds(spec):
                chosen += ["--model", model]
        if unset or not chosen:
            needs = unset or f"a --model that serves requests of the kind {kind!r}"
            missing.append(f"not measured without {needs}: llmprops run {shlex.join(run)}")
        else:
            filled.append([*words[:place], *chosen, *words[place + 2 :], *rest])
    return filled, missing


def _measure(
    table: PaperTable, models: Sequence[str], others: Sequence[str]
) -> tuple[int, list[Path], list[str]]:
    """Print the plan of each command, then run them.

    Return the exit status, the folders of the runs, and what is missing for commands that were left out.

    :raises UsageError: if the table cannot be measured, or the authors' items are missing.
    """
    from pytest_llmprops.runs.reader import read_run
    from pytest_llmprops.runs.record import DEFAULT_ROOT

    runs_of_suites = suite_runs(table)
    given = {word.partition("=")[0] for word in others}
    own = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    own.add_argument("--llm-data", default="")
    data: str = own.parse_known_args(list(others))[0].llm_data
    has_data = data or os.environ.get("LLMPROPS_DATA") or any("llm_source=" in word for word in others)
    if not has_data and any("llm_source=builtin" not in words for words in runs_of_suites):
        raise UsageError(
            f"{table.id}: the paper's items are not here; download them with `llmprops data pull --dest DIR` and pass"
            " --llm-data DIR, or pass -o llm_source=builtin for this project's items"
        )
    for word in ("--llm-run", "--llm-resume"):
        if word in given:
            raise UsageError(f"papers: {word} is set by this command; repeat the command to resume")
    for words in runs_of_suites:
        if not any(word.startswith("llm_source=") for word in words):
            # The user's own value, which follows, takes precedence.
            words += ["-o", "llm_source=published"]
    filled, missing = _filled(runs_of_suites, models, others)
    if not filled:
        raise UsageError(f"{table.id}: {missing[0]}")
    print("".join(f"{line}\n" for line in missing), end="")
    commands: list[tuple[Path, list[str]]] = []
    for number, words in enumerate(filled, start=1):
        arguments = ["--pyargs", *pytest_arguments(words), "-q"]
        digest = hashlib.sha256("\0".join(arguments).encode()).hexdigest()[:8]
        folder = DEFAULT_ROOT / f"{table.id.replace('/', '-')}-{number}-{digest}"
        commands.append((folder, arguments))
    pending: list[list[str]] = []
    for folder, arguments in commands:
        resume: list[str] = []
        if (folder / "run.json").is_file():
            run = read_run(folder)
            if run.facts.complete and not run.has_errors:
                print(f"already measured: {folder}")
                continue
            resume = ["--llm-resume"]
        if status := _pytest([*arguments, "--llm-plan"]):
            return status, [], missing
        pending.append([*arguments, "--llm-run", str(folder), *resume])
    if "--llm-plan" in given:
        return 0, [], missing
    for arguments in pending:
        # Wrong answers are failures of pytest, with status 1.
        if (status := _pytest(arguments)) not in (0, 1):
            return status, [], missing
    for words in _commands(table):
        for folder, _ in commands if _FOLDER in words else ():
            # In a process of its own, as the runs: both may load a large model.
            with_folder = [str(folder) if word == _FOLDER else word for word in words[1:]]
            if status := _process("pytest_llmprops.cli.main", with_folder, data=data):
                return status, [], missing
    return 0, [folder for folder, _ in commands], missing


def _pytest(arguments: Sequence[str]) -> int:
    """Run pytest and return its exit status. An interrupt reaches it as well, and it ends with its summary."""
    return _process("pytest", arguments)


def _process(module: str, words: Sequence[str], *, data: str = "") -> int:
    """Print a command of Python, run it, and return its exit status. On Linux, it ends when this process is killed.

    :param data: the folder of published data, if it is not that of ``LLMPROPS_DATA``.
    """
    from pytest_llmprops.training.run import ending_with_parent

    command = [sys.executable, "-m", module, *words]
    print(shlex.join(command), flush=True)
    changes = {NEEDS_MODEL: "1"} | ({"LLMPROPS_DATA": data} if data else {})
    with subprocess.Popen(command, env=os.environ | changes, preexec_fn=ending_with_parent()) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue


def _show(
    table: PaperTable, runs: Sequence[Run], as_csv: bool, out: Path | None, missing: Sequence[str]
) -> int:
    tables, figures = _report_blocks(table, runs)
    own = [result for run in runs for result in own_results(table, run)]
    rows, notes = paper_rows(table, own)
    notes += [*(note for run in runs for note in run_notes(table, run)), *missing]
    shown = [("", rows)] if rows else []
    shown += [(block.title, _texts(block)) for block in tables]
    if not shown:
        state = f"{table.state}: {table.reason or table.shows}"
        if runs:
            names = ", ".join(figure.name for figure in figures)
            state = f"a figure; --out DIR writes it: {names}" if names else "no case in these runs"
        shown = [("", [("name", "state"), (table.id, state)])]
    # If the rows of the paper's table are not models, your figures are in the report's tables, next to the paper's.
    parts = [_texts(block) for block in tables] if tables and not own else [shown[0][1]]
    if out is not None:
        markdown = [f"# {table.id}: {table.title}", ""]
        for title, part in shown:
            markdown += [*([f"## {title}", ""] if title else []), _markdown(part), ""]
        files = _write(out, "\n".join([*markdown, *(f"{note}\n" for note in notes)]), *parts)
        return wrote([*files, *_draw(out, figures)])
    if as_csv:
        print("\n".join(map(_csv, parts)), end="")
        return 0
    print(f"{table.id}: {table.title} ({table.shows}) · {table.state}")
    for title, part in shown:
        print(f"\n{title}" if title else "")
        print_table(part)
    for text in (*notes, table.reason, table.command and f"Measure it: {table.command}"):
        if text:
            print(f"\n{text}" if text == table.reason else text)
    return 0


def paper_rows(table: PaperTable, own: Sequence[PublishedResult] = ()) -> tuple[Rows, list[str]]:
    """Return the printed figures as the rows of the paper's table, below a row of heads, and their notes.

    :param own: figures of your models in the same form, as the last rows. Figures that the paper does not print are
        left out.
    """
    printed = table.results
    if not printed:
        return [], []
    heads = [name for name in table.rows.split() if name == "model" or len(_values(printed, name)) > 1]
    heads = heads or table.rows.split()[:1]
    fields = [name for name in _FIELDS if name not in heads and len(_values(printed, name)) > 1]
    fields = fields or ["metric"]
    columns = list(dict.fromkeys(_key(result, fields) for result in printed))
    notes = list(dict.fromkeys(result.note for result in printed if result.note))
    rows: Rows = [(*heads, *(" ".join(filter(None, column)) for column in columns))]
    for part in (printed, own):
        cells: dict[tuple[str, ...], dict[tuple[str, ...], str]] = {}
        for result in part:
            key = _key(result, fields)
            if key in columns:
                row = cells.setdefault(_key(result, heads), {})
                mark = f" [{notes.index(result.note) + 1}]" if part is printed and result.note else ""
                row[key] = " / ".join(
                    filter(None, (row.get(key, ""), f"{_number(result, is_own=part is own)}{mark}"))
                )
        rows += [(*head, *(row.get(column, "") for column in columns)) for head, row in cells.items()]
    return rows, [f"[{number}] {note}" for number, note in enumerate(notes, start=1)]


def _values(results: Iterable[PublishedResult], name: str) -> set[str]:
    return {getattr(result, name) for result in results}


def _key(result: PublishedResult, names: Sequence[str]) -> tuple[str, ...]:
    values = (getattr(result, name) for name in names)
    return tuple("" if value is None else str(value).replace(AT_LEAST, "") for value in values)


def _number(result: PublishedResult, *, is_own: bool) -> str:
    """Return a figure as in the paper: shares in percent, with the printed digits; your own with one decimal."""
    if _NOT_SHARES.search(result.metric):
        return f"{result.value:.3g}" if is_own else f"{result.value:g}"
    if is_own:
        return f"{100 * result.value:.1f}"
    more = "> " if result.metric.endswith(AT_LEAST) else ""
    text = f"{100 * result.value:.2f}"
    return more + (text[:-1] if text.endswith("0") else text)


def _report_blocks(table: PaperTable, runs: Sequence[Run]) -> tuple[list[Table], list[Figure]]:
    """Return the tables and figures of the report that the list names."""
    patterns = [part for part in table.report.split("; ") if part]
    if not runs or not patterns:
        return [], []
    from pytest_llmprops.reports import check_packages
    from pytest_llmprops.reports.kit.blocks import Figure, Table
    from pytest_llmprops.reports.kit.generic import section_of
    from pytest_llmprops.reports.kit.series import Measured, series_of
    from pytest_llmprops.reports.page.build import unfolded

    check_packages("llmprops papers")
    series = tuple(s for s in series_of(runs) if table.paper in s.benchmarks)
    if not series:
        return [], []

    def is_named(name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in patterns)

    blocks = list(unfolded(section_of(Measured(table.paper, series)).blocks))
    return (
        [block for block in blocks if isinstance(block, Table) and is_named(block.title)],
        [block for block in blocks if isinstance(block, Figure) and is_named(block.name)],
    )


def _texts(block: Table) -> Rows:
    return [
        tuple(head for head, _ in block.columns),
        *(tuple(cell.text for cell in row) for row in block.rows),
    ]


def _draw(out: Path, figures: Sequence[Figure]) -> list[Path]:
    """Write the figures as SVG and PNG, and return their files."""
    if not figures:
        return []
    from pytest_llmprops.reports.kit.figures import draw
    from pytest_llmprops.reports.page.build import figure_files, write_file

    files = figure_files(out, {figure.name: draw(figure.draw) for figure in figures})
    for path, content in files.items():
        write_file(path, content)
    return list(files)


def _write(out: Path, markdown: str, *parts: Rows) -> list[Path]:
    out.mkdir(parents=True, exist_ok=True)
    names = ["table.csv", *(f"table-{number}.csv" for number in range(2, len(parts) + 1))]
    files = {out / "table.md": markdown}
    files |= {out / name: _csv(rows) for name, rows in zip(names, parts, strict=True)}
    for path, text in files.items():
        write_text(path, text)
    return list(files)


def _csv(rows: Rows) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _markdown(rows: Rows) -> str:
    return "\n".join(markdown_table([[cell.replace("|", "\\|") for cell in row] for row in rows]))
