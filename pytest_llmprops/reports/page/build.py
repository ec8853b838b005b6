"""Writing a report: ``report.md``, ``report.html`` and ``figures/*.svg|png``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.data.whole_files import replacing
from pytest_llmprops.reports import check_packages
from pytest_llmprops.reports.kit.blocks import Block, Figure, Fold, Report
from pytest_llmprops.runs.compare import with_baseline_first
from pytest_llmprops.runs.gate.decide import decide, with_computed_metrics
from pytest_llmprops.runs.gate.file import NEEDS_BASELINE, read_gate
from pytest_llmprops.runs.reader import Run, read_run
from pytest_llmprops.runs.readings import read_reviews
from pytest_llmprops.runs.replies import read_requests


def with_decisions(runs: Sequence[Run], path: Path) -> list[Run]:
    """Return the runs with the gate's decision on each; earlier decisions are replaced.

    :param runs: the baseline first, if the gate has rules that compare. It keeps the decision in its record.
    :param path: the gate file.
    :raises UsageError: if a rule compares and there is only one run.
    """
    gate = read_gate(path)
    if gate.needs_baseline and len(runs) < 2:
        raise UsageError(f"{path}: {NEEDS_BASELINE} --baseline RUN")
    baseline = runs[0] if gate.needs_baseline else None
    decided: list[Run] = []
    for run in runs:
        if run is not baseline:
            run = with_computed_metrics(gate, run)
            result = decide(gate, run.facts, run.records, baseline, problems=run.problems)
            run = replace(run, facts=replace(run.facts, gate=result))
        decided.append(run)
    return decided


def write_report(
    folders: Sequence[Path],
    out: Path,
    baseline: Path | None = None,
    gate: Path | None = None,
    *,
    pdf: bool = False,
    is_served: bool = False,
) -> list[Path]:
    """Write the report on the runs in ``folders`` into ``out``.

    Equal records give equal bytes. Files are replaced atomically, one by one; none is deleted.

    :param baseline: the run to compare with (see :func:`~pytest_llmprops.runs.compare.with_baseline_first`).
    :param gate: a gate file, whose decision on each run replaces the recorded one.
    :param pdf: also write ``decision.pdf``, one page. Its bytes are the browser's, and differ each time.
    :param is_served: ``llmprops view`` serves the page, and saves its review marks.
    :return: the files, ``report.html`` first.
    :raises MissingExtra: without jinja2 or matplotlib.
    :raises UsageError: if ``out`` has files but no earlier report, or cannot be written.
    :raises DataError: if a run cannot be read.
    """
    check_packages("llmprops report")
    from pytest_llmprops.reports.kit.figures import draw
    from pytest_llmprops.reports.page.html import MARK, to_html
    from pytest_llmprops.reports.page.markdown import to_markdown
    from pytest_llmprops.reports.page.sheet import decision_sheet, find_browser

    page = out / "report.html"
    refuse_foreign(out, lambda: MARK in page.read_text("utf-8", "replace")[:2000], "report")

    browser = find_browser() if pdf else None

    runs = [read_run(folder) for folder in dict.fromkeys(folder.resolve() for folder in folders)]
    runs = with_baseline_first(runs, None if baseline is None else read_run(baseline.resolve()))
    if gate is not None:
        runs = with_decisions(runs, gate)
    report = report_of(runs)
    drawn = {f.name: draw(f.draw) for section in report.sections for f in figures_in(section.blocks)}
    files: dict[Path, bytes] = {
        out / "report.html": to_html(
            report, {name: svg for name, (svg, _) in drawn.items()}, is_served=is_served
        ),
        out / "report.md": to_markdown(report).encode("utf-8", "replace"),
    }
    if browser is not None:
        files[out / "decision.pdf"] = decision_sheet(report, browser)
    files |= figure_files(out, drawn)
    for path, content in files.items():
        write_file(path, content)
    return list(files)


def run_page(run: Run) -> bytes:
    """Return ``report.html`` of one run."""
    from pytest_llmprops.reports.kit.figures import draw_svg
    from pytest_llmprops.reports.page.html import to_html

    report = report_of([run])
    drawn = {f.name: draw_svg(f.draw) for section in report.sections for f in figures_in(section.blocks)}
    return to_html(report, drawn)


def report_of(runs: Sequence[Run]) -> Report:
    """Return the report on runs, with the replies and review marks in their folders."""
    from pytest_llmprops.reports.page.content import report_on

    marks = [mark for run in runs for mark in read_reviews(run.folder, run.run_id).values()]
    return report_on(runs, {id(run): read_requests(run.folder) for run in runs}, marks)


def figure_files(out: Path, drawn: Mapping[str, tuple[str, bytes]]) -> dict[Path, bytes]:
    """Return the files of figures in a folder, by path.

    :param drawn: the SVG and PNG of each figure, by name.
    """
    files = {}
    for name, (svg, png) in drawn.items():
        files[out / "figures" / f"{name}.svg"] = svg.encode("utf-8", "replace")
        files[out / "figures" / f"{name}.png"] = png
    return files


def unfolded(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield all blocks, and those in a fold in its place."""
    for block in blocks:
        yield from unfolded(block.blocks) if isinstance(block, Fold) else [block]


def figures_in(blocks: Iterable[Block]) -> Iterator[Figure]:
    """Yield all figures, including those in folds."""
    return (block for block in unfolded(blocks) if isinstance(block, Figure))


def refuse_foreign(out: Path, is_own: Callable[[], bool], what: str) -> None:
    """Check that a folder is new, empty, or has an earlier report or site.

    :param is_own: whether the folder has one; it may raise OSError or ValueError.
    :param what: what the folder may have, for the message.
    :raises UsageError: if it has other files, or is a file.
    """
    if not out.exists():
        return
    if not out.is_dir():
        raise UsageError(f"--out {out}: is not a folder")
    with contextlib.suppress(OSError, ValueError):
        if is_own():
            return
    if any(out.iterdir()):
        raise UsageError(f"--out {out}: has other files; give a new folder, or one with an earlier {what}")


def write_file(path: Path, content: bytes) -> None:
    """Write a file atomically, unless it has this content."""
    try:
        if path.is_file() and path.read_bytes() == content:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as draft:
            draft.write_bytes(content)
    except OSError as error:
        raise UsageError(f"--out {path}: {error.strerror}") from None
