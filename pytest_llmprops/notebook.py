"""Measure, read, compare and judge from Python: in a script or a notebook.

The functions start what the commands ``llmprops run``, ``compare`` and ``gate`` start, on the same records. Their
results are shown as tables and figures in a notebook, and as the commands' text by ``print``.
"""

from __future__ import annotations

import base64
import html
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pytest_llmprops.benchmark_registry import benchmark_names, suites_of
from pytest_llmprops.core.errors import RunStopped, UsageError
from pytest_llmprops.core.numbers import counted
from pytest_llmprops.core.texts import one_line, terminal_line, visible
from pytest_llmprops.models.spec import without_secrets
from pytest_llmprops.records.gate import GateResult
from pytest_llmprops.reports.compare import markdown, terminal_lines
from pytest_llmprops.reports.gate import gate_lines, gate_markdown
from pytest_llmprops.reports.tables import terminal_width
from pytest_llmprops.reports.terminal import summary_lines
from pytest_llmprops.runs import compare as comparing
from pytest_llmprops.runs import reader
from pytest_llmprops.runs.catalog import find_run
from pytest_llmprops.runs.export import table
from pytest_llmprops.runs.gate import decide as deciding
from pytest_llmprops.runs.gate.file import NEEDS_BASELINE, read_gate
from pytest_llmprops.runs.record import new_run_folder, remove_record
from pytest_llmprops.runs.recorded_command import resume_command

if TYPE_CHECKING:
    import pandas as pd

    from pytest_llmprops.reports.kit.blocks import Table

#: seconds after which the output of a run is read again
_INTERVAL = 0.1
#: the number of Ctrl-C after which a run is killed; until then it completes its record
_MOST_INTERRUPTS = 3
#: the plugin that writes why a run ended
_ENDING = "pytest_llmprops.plugin.ending"
#: exit statuses of pytest: wrong answers are failed tests
_MEASURED = (0, 1)
_USAGE = (4, 5)


class Run(reader.Run):
    """One recorded run, as :func:`measure` and :func:`read_run` return it.

    ``facts`` is ``run.json``, ``records`` the verdicts as objects, and ``folder`` the folder of the record. The frames
    are pandas frames of all models, with ``run_id`` as the first column, so that frames of several runs can be joined.
    They are made once: copy a frame before you change it. Without the extra ``report``, they raise MissingExtra.

    A notebook shows the accuracies as tables and figures. ``print`` writes the summary that pytest prints.
    """

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """One row per sample of an item; the numbers of a benchmark are columns ``value_<name>``."""
        return table([self], "verdicts")

    @cached_property
    def requests(self) -> pd.DataFrame:
        """One row per request to a model, with its prompt, reply, tokens and seconds; read from the record's folder."""
        return table([self], "requests")

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """One row per metric of a task, with its interval where there is one."""
        return table([self], "metrics")

    @cached_property
    def summary(self) -> pd.DataFrame:
        """One row per model, task, language and source: the counts, the accuracy and its interval."""
        return table([self], "summary")

    def __repr__(self) -> str:
        models = ", ".join(self.models) or "no model"
        return visible(
            f"<Run {self.run_id}: {models}, {counted(len(self.records), 'verdict')}, {self.state}>"
        )

    def __str__(self) -> str:
        lines = summary_lines(self.facts, self.records, self.folder, self.notes, terminal_width())
        return "\n".join(lines).strip("\n")

    def _repr_html_(self) -> str:
        return "\n".join(_html(self))


class Comparison(comparing.Comparison):
    """The result of :func:`compare`: the runs, the changes by task, and the items that flipped.

    A notebook shows it as tables. ``print`` writes what ``llmprops compare`` prints.
    """

    def __repr__(self) -> str:
        pairs = (f"{c.baseline.model} → {c.candidate.model}" for c in self.contrasts)
        return visible(f"<Comparison {', '.join(pairs)}>")

    def __str__(self) -> str:
        return "\n".join(terminal_lines(self, terminal_width()))

    def _repr_markdown_(self) -> str:
        return markdown(self)


class Decision(GateResult):
    """The decision of a gate, as :func:`decide` returns it.

    ``decision`` is ``pass``, ``fail``, ``inconclusive`` or ``invalid``, ``line`` says why, and ``rules`` has what was
    measured. A notebook shows it as a table. ``print`` writes what ``llmprops gate`` prints.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return visible(f"<Decision {self.line}>")

    def __str__(self) -> str:
        return "\n".join(gate_lines(self, terminal_width()))

    def _repr_markdown_(self) -> str:
        return gate_markdown(self)


def read_run(path: str | PathLike[str]) -> Run:
    """Read a recorded run.

    :param path: the folder of a run, or its name under ``reports/runs`` or ``baselines``.
    :raises UsageError: if there is no such run. :raises DataError: if its record is damaged.
    """
    return Run(**_fields(reader.read_run(find_run(os.fspath(path)))))


def compare(*runs: reader.Run, all_pairs: bool = False) -> Comparison:
    """Compare the first run, the baseline, with each other run on the items that both have.

    Models of the same name are compared. If two runs have no model name in common, every model of one is compared with
    every model of the other. Of a single run, the models are compared.

    :param all_pairs: compare every pair of runs.
    :raises UsageError: without a run, for one run with one model, or if an argument is not a run.
    """
    if not runs:
        raise UsageError("compare() needs runs: compare(baseline, candidate)")
    for number, value in enumerate(runs, 1):
        _check_run(f"compare: argument {number}", value)
    return Comparison(**_fields(comparing.compare(runs, all_pairs=all_pairs)))


def decide(gate: str | PathLike[str], run: reader.Run, baseline: reader.Run | None = None) -> Decision:
    """Decide by a gate file whether a run passes.

    :param gate: the gate file. :param baseline: the run to compare with, if a rule compares.
    :raises UsageError: if the gate file is invalid, an argument is not a path or a run, or a rule compares and there
        is no baseline.
    """
    if not isinstance(gate, str | PathLike):
        raise UsageError(
            f"decide: the gate is the path of a file, not {type(gate).__name__}: write its rules to gate.toml"
        )
    _check_run("decide: run", run)
    if baseline is not None:
        _check_run("decide: baseline", baseline)
    rules = read_gate(Path(gate))
    if baseline is None and rules.needs_baseline:
        raise UsageError(f"{os.fspath(gate)}: {NEEDS_BASELINE} decide(gate, run, baseline)")
    run = deciding.with_computed_metrics(rules, run)
    return Decision(
        **_fields(deciding.decide(rules, run.facts, run.records, baseline, problems=run.problems))
    )


def _check_run(where: str, value: object) -> None:
    if not isinstance(value, reader.Run):
        raise UsageError(f"{where} is {type(value).__name__}; read a run with read_run(path)")


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def measure(
    model: str | Sequence[str],
    suites: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    *,
    limit: int | None = None,
    size: str | None = None,
    protocol: str | None = None,
    settings: Mapping[str, object] | None = None,
    source: str | None = None,
    data: str | PathLike[str] | None = None,
    workers: int | None = None,
    folder: str | PathLike[str] | None = None,
    store: str | PathLike[str] | None = None,
    options: Sequence[str] = (),
    quiet: bool = False,
) -> Run:
    """Measure models with pytest in a process of its own, and return the recorded run.

    Ctrl-C, or the button that interrupts a notebook's kernel, ends the run: pytest completes the record of what was
    measured, and KeyboardInterrupt is raised. A run above the limits of ``llm_confirm`` is refused without
    ``options=["--llm-yes"]``.

    :param model: one specification or several, as for ``--model``.
    :param suites: names of benchmarks, and test files or folders; all installed benchmarks without any.
    :param limit: number of items per task and language (``--llm-limit``).
    :param size: ``small``, ``standard`` or ``full`` (``--llm-size``).
    :param protocol: ``quick`` or ``paper`` (``--llm-protocol``).
    :param settings: changes of the protocol (``--llm-set``): ``{"htest.k": 4}``.
    :param source: ``builtin``, ``published`` or ``all`` (``llm_source``). :param data: its folder (``--llm-data``).
    :param workers: number of processes of pytest-xdist (``-n``).
    :param folder: new folder for the record (``--llm-run``); by default under ``reports/runs`` in the current folder.
    :param store: file or URL of the reply store (``--llm-store``).
    :param options: further options of pytest, as words: ``["--llm-seed", "3", "-k", "rhyme"]``.
    :param quiet: do not print the output of pytest.
    :raises UsageError: if pytest refuses an argument or selects no item, with its line.
    :raises RunStopped: if the run ended early, with its line; the record has the verdicts so far.
    """
    models = _words(model)
    paths = _suite_paths(_words(suites))
    target = (
        Path(folder).expanduser()
        if folder is not None
        else new_run_folder(None, list(map(without_secrets, models)), Path())
    )
    values = {
        "--llm-limit": limit, "--llm-size": size, "--llm-protocol": protocol,
        "--llm-data": data, "--llm-store": store, "-n": workers, "--llm-run": target.absolute(),
    }  # fmt: skip
    command = [sys.executable, "-m", "pytest", "--color=no", "--pyargs", *paths]
    command += [word for name in models for word in ("--model", name)]
    command += [word for name, value in values.items() if value is not None for word in (name, str(value))]
    command += [] if source is None else ["-o", f"llm_source={source}"]
    command += [word for name, value in (settings or {}).items() for word in ("--llm-set", f"{name}={value}")]
    try:
        status, reason = _run([*command, *_words(options)], quiet=quiet)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted{_left(target)}") from None
    finally:
        if folder is None and not _has_record(target):
            remove_record(target)
    if status in _MEASURED and _has_record(target):
        return read_run(target.absolute())
    if status in _USAGE:
        raise UsageError(reason)
    raise RunStopped(f"{reason}{_left(target)}")


def _words(value: str | PathLike[str] | Sequence[str | PathLike[str]]) -> list[str]:
    return [os.fspath(value)] if isinstance(value, str | PathLike) else [os.fspath(one) for one in value]


def _suite_paths(names: Sequence[str]) -> list[str]:
    """Return the suites of benchmarks, and files and folders as they are.

    :raises UsageError: for a text that is none of these.
    """
    paths: list[str] = []
    for name in names:
        is_path = name not in benchmark_names() and Path(name.partition("::")[0]).exists()
        paths += [name] if is_path else suites_of([name])
    return paths or suites_of()


def _run(command: Sequence[str], *, quiet: bool) -> tuple[int, str]:
    """Run pytest and print its output as it comes; return its exit status, and why it ended if that is no success.

    :raises KeyboardInterrupt: after Ctrl-C, when the run has ended.
    """
    # A process cannot inherit the output of a notebook, which is not a file. Reading a pipe would not end while another
    # process that the run started, such as a server, has it open.
    presses = 0
    with tempfile.TemporaryDirectory(prefix="llmprops-", ignore_cleanup_errors=True) as name:
        path, ending = Path(name) / "output", Path(name) / "ending"
        plugins = ",".join(filter(None, (os.environ.get("PYTEST_PLUGINS"), _ENDING)))
        environment = os.environ | {
            "PYTHONUNBUFFERED": "1",
            "PYTHONIOENCODING": "utf-8:replace",
            "PYTEST_PLUGINS": plugins,
            "LLMPROPS_ENDING": str(ending),
        }
        with (
            open(path, "ab") as written,
            open(path, encoding="utf-8", errors="replace", newline="") as output,
        ):
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.STDOUT,
                env=environment,
                # A terminal sends Ctrl-C to its group of processes, a notebook to the kernel only. In a group of its
                # own, pytest gets one signal in both cases.
                process_group=0,
            )
            try:
                while process.poll() is None:
                    try:
                        _print_new(output, quiet)
                        with suppress(subprocess.TimeoutExpired):
                            process.wait(_INTERVAL)
                    except KeyboardInterrupt:
                        presses += 1
                        _signal(process, signal.SIGINT if presses < _MOST_INTERRUPTS else signal.SIGKILL)
                _print_new(output, quiet)
            finally:
                # Something else than Ctrl-C, such as an output that cannot be written.
                if process.poll() is None:
                    _signal(process, signal.SIGTERM)
                    process.wait()
        reason = ending.read_text(encoding="utf-8") if ending.exists() else ""
    if presses:
        raise KeyboardInterrupt
    shown = one_line(reason) or f"pytest ended with status {process.returncode}"
    return process.returncode, terminal_line(shown)


def _print_new(output: IO[str], quiet: bool) -> None:
    text = output.read()
    if text and not quiet:
        sys.stdout.write(text)
        sys.stdout.flush()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send a signal to pytest and its workers."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _has_record(folder: Path) -> bool:
    return (folder / "run.json").is_file()


def _left(folder: Path) -> str:
    """Return what a run that ended early has left, and how it goes on; empty without a record."""
    if not _has_record(folder):
        return ""
    return f"; the verdicts so far are in {folder}, and '{resume_command(folder)}' measures the others"


def _html(run: Run) -> Iterator[str]:
    """Yield the parts of a run in a notebook: its facts and, for each benchmark, a table and a figure."""
    from pytest_llmprops.reports.kit.generic import accuracy_figure, counts_table
    from pytest_llmprops.reports.kit.series import Measured, series_of

    models = ", ".join(run.facts.marked(model) for model in run.models) or "no model"
    verdicts = counted(len(run.records), "verdict")
    yield f"<p><b>{_escaped(models)}</b>: {verdicts}, {run.state}; {_escaped(str(run.folder))}</p>"
    yield from (f"<p>{_escaped(note)}</p>" for note in (*run.problems, *run.notes))
    series = series_of([run])
    for name in dict.fromkeys(row.benchmark for row in run.facts.summary):
        measured = Measured(name, tuple(one for one in series if name in one.benchmarks))
        yield f"<h4>{_escaped(measured.facts.title)}</h4>"
        yield from _table(counts_table(measured))
        warnings = [row.text for row in run.facts.remarks if row.benchmark == name and row.warning]
        yield from (f"<p><b>Warning:</b> {_escaped(text)}</p>" for text in warnings)
        if importlib.util.find_spec("matplotlib") is not None:
            from pytest_llmprops.reports.kit.figures import draw_svg

            figure = accuracy_figure(measured)
            # As an image, so that its ids and styles are not those of the notebook's page.
            data = base64.b64encode(draw_svg(figure.draw).encode("utf-8", "replace")).decode("ascii")
            yield f'<img alt="{_escaped(figure.alt)}" src="data:image/svg+xml;base64,{data}">'


def _table(block: Table) -> Iterator[str]:
    sides = ["right" if is_number else "left" for _, is_number in block.columns]

    def row(tag: str, texts: Iterable[str]) -> str:
        cells = zip(texts, sides, strict=True)
        parts = (f'<{tag} style="text-align: {side}">{_escaped(text)}</{tag}>' for text, side in cells)
        return f"<tr>{''.join(parts)}</tr>"

    yield f"<table><thead>{row('th', (title for title, _ in block.columns))}</thead><tbody>"
    yield from (row("td", (cell.text for cell in cells)) for cells in block.rows)
    yield "</tbody></table>"


def _escaped(text: str) -> str:
    return html.escape(visible(text))
