"""Records of other people: whatever is in them, every reader ends in time, with one line that names the file."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import re
import shutil
import signal
from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pytest_llmprops.cli.main import main
from pytest_llmprops.core.errors import LLMPropsError, UsageError
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.records.files import FILES, from_plain, json_schema
from pytest_llmprops.records.rows import Review
from pytest_llmprops.reports.site.live import Watch
from pytest_llmprops.reports.site.marks import save_mark, saved_marks
from pytest_llmprops.runs.integrity import file_hashes, run_json
from pytest_llmprops.runs.json_lines import JsonLines
from pytest_llmprops.runs.readings import append_review
from pytest_llmprops.runs.record import check_run_folder, new_run_folder
from tests.runs.test_runs_searches import FOUND, row
from tests.support.runs import ROOT, WORD_HELPERS, Runner

SECONDS = 60
GATE = """
[[rule]]
min_accuracy = 0.5
[[rule]]
max_drop = 0.1
[[rule]]
benchmark = "htest"
metric = "format_rate"
min = 0.5
"""


def finish(run: Path) -> None:
    """Compute the hashes of a record again, as who changed it can."""
    facts = json.loads((run / "run.json").read_bytes())
    facts["files"] = file_hashes(run)
    (run / "run.json").write_text(run_json(facts), encoding="utf-8", errors="replace")


#: a few cases of each benchmark
SELECTED = "htest or homophones or oracle or eras/explicit/0 or eras/implicit/0 or dtails/af"


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a record of all benchmarks in two shards, with searches and marks, and a gate file."""
    folder = tmp_path_factory.mktemp("shards")
    runner = Runner(folder)
    for number in (1, 2):
        done = runner(
            str(ROOT / "suites"), f"--rootdir={ROOT}", "--model", "fake:echo", "--llm-limit", "1", "--llm-cache", "off",
            *WORD_HELPERS,
            "-k", SELECTED, "--llm-shard", f"{number}/2", "-n", "0", "-q", timeout=300,
        )  # fmt: skip
        run = done.folder
        assert (run / "run.json").exists(), done.output
        lines = (run / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()
        label = json.loads(lines[0])["model"]
        searches = [row(1, FOUND, model=label), row(2, model=label)]
        (run / "searches.jsonl").write_text("".join(json.dumps(one) + "\n" for one in searches))
        for line in lines[:3]:
            mark = {name: json.loads(line)[name] for name in ("model", "benchmark", "source", "id", "sample")}
            append_review(
                run, from_plain(Review, {"run": run.name, **mark, "note": "?", "status": "correct"})
            )
        finish(run)
    (folder / "gate.toml").write_text(GATE)
    return folder


class TooSlow(BaseException):
    """A reader did not end in time."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise :class:`TooSlow` in the block after this time."""

    def stop(number: int, frame: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def command(*arguments: object) -> str:
    """Run a command in this process. Return its error; empty if it has none."""
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        status = main([str(argument) for argument in arguments])
    assert status in (0, 1, 2, 6, 7)
    if status != 2:
        return ""
    [line] = errors.getvalue().splitlines()
    return line


def view(run: Path) -> str:
    """Follow a run as ``llmprops view``, read its marks and make one. Return the problem that the page shows."""
    watch = Watch([run.parent])
    while not watch.is_current:
        watch.step()
    shown = "".join(run.problem for run in watch.runs.values())
    try:
        saved_marks(run)
        for line in islice(JsonLines(run / "verdicts.jsonl", partial(from_plain, VerdictRecord)), 1):
            save_mark({"run": run.name, **line.key._asdict(), "note": "", "status": "wrong"}, run)
    except LLMPropsError as error:
        return str(error)
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    return shown


def readers(run: Path, other: Path, out: Path) -> dict[str, Callable[[], str]]:
    """Return what reads the run, by name. Each returns its error; empty if it has none."""
    gate = ("gate", run, "--gate", run.parent.parent / "gate.toml")
    tables = ("verdicts", "summary", "metrics", "requests", "searches")
    return {
        "show": lambda: command("runs", "show", run),
        "compare": lambda: command("compare", other, run),
        "gate": lambda: command(*gate, "--baseline", other),
        "gate of a baseline": lambda: command("gate", other, *gate[2:], "--baseline", run),
        "merge": lambda: command("runs", "merge", run, other, "--out", out / "merged"),
        "view": lambda: view(run),
        "readings": lambda: command("readings", run),
        **{
            f"export {name}": lambda name=name: command(  # type: ignore[misc]
                "runs", "export", run, "--csv", out / f"{name}.csv", "--parquet", out / f"{name}.pq", "--table", name
            )
            for name in tables
        },
        "site": lambda: command("site", run.parent, "--out", out / "site", "--reports", "none"),
        "report": lambda: command("report", run, "--out", out / "report"),
    }  # fmt: skip


def read_all(run: Path, other: Path, out: Path, without: Collection[str] = ()) -> dict[str, str]:
    """Read the run in every way. Return the errors by reader; each is one line that names a file of the run.

    :param without: the readers that do not read it.
    :raises AssertionError: if one takes too long, raises an exception, or says something else.
    """
    errors = {}
    for name, read in readers(run, other, out).items():
        if name in without:
            continue
        try:
            with at_most(SECONDS):
                error = read()
        except (Exception, TooSlow) as fault:
            raise AssertionError(f"{run}, {name}: {type(fault).__name__}: {str(fault)[:500]}") from fault
        if error:
            assert "\n" not in error, (name, error)
            assert str(run) in error or "this run is" in error, (name, error)
            errors[name] = error
    return errors


def copied(shards: Path, folder: Path) -> Path:
    """Copy the first shard and the gate file into a folder; return the run."""
    (folder / "runs").mkdir(parents=True)
    shutil.copy(shards / "gate.toml", folder)
    return Path(shutil.copytree(shards / "run-1", folder / "runs" / "run-1"))


def zeros(path: Path, size: int) -> None:
    """Make a file of this size, in bytes, that takes no space."""
    path.touch()
    os.truncate(path, size)


KINDS: dict[str, Callable[[Path, Path], object]] = {
    "link": lambda path, secret: path.symlink_to(secret),
    "dangling link": lambda path, secret: path.symlink_to(secret.with_name("missing")),
    "device": lambda path, secret: path.symlink_to("/dev/zero"),
    "pipe": lambda path, secret: os.mkfifo(path),
    "folder": lambda path, secret: path.mkdir(),
    "large": lambda path, secret: zeros(path, 1 << 40),
    "long line": lambda path, secret: zeros(path, FILES[path.name].line + 2),
}


@pytest.mark.parametrize(
    ("name", "kind"),
    [*((name, "device") for name in FILES), *(("verdicts.jsonl", kind) for kind in KINDS if kind != "device"),
     ("review.jsonl", "link"), ("requests.jsonl", "link")],
)  # fmt: skip
def test_a_file_that_is_not_a_regular_file(shards: Path, tmp_path: Path, name: str, kind: str) -> None:
    """No reader follows a link, waits for a pipe, or reads without end. Every error names the file."""
    run = copied(shards, tmp_path)
    secret = tmp_path / ".bash_aliases"
    secret.write_text("alias ls=ls\n")
    (run / name).unlink()
    KINDS[kind](run / name, secret)
    reads = {
        "run.json": {"show", "compare", "gate", "merge", "view", "report"},
        "verdicts.jsonl": {"show", "compare", "gate", "merge", "view", "report"},
        "searches.jsonl": {"show", "compare", "gate", "merge", "report"},
        "requests.jsonl": {"report", "export requests"},
        "review.jsonl": {"view", "report"},
    }[name]
    # An endless device shows whether a reader opens the file at all without a check.
    without = () if kind == "device" else readers(run, run, tmp_path).keys() - reads
    errors = read_all(run, shards / "run-2", tmp_path, without)
    assert secret.read_text() == "alias ls=ls\n"
    assert not secret.with_name("missing").exists()
    assert reads <= errors.keys()
    assert all(str(run / name) in errors[reader] for reader in reads)


def test_a_new_run_does_not_write_through_links(tmp_path: Path) -> None:
    """A run is not begun in a folder with a link in place of one of the files that it may write."""
    for name in ("run.json", "verdicts.jsonl", "requests.jsonl", "searches.jsonl", ".collected-gw0.json"):
        folder = tmp_path / name.strip(".")
        folder.mkdir()
        (folder / name).symlink_to(tmp_path / "target")
        for use in (check_run_folder, lambda at, root: new_run_folder(at, ["m"], root)):
            with pytest.raises(UsageError, match=f"--llm-run {folder}: "):
                use(str(folder), tmp_path)
    assert not (tmp_path / "target").exists()


VALUES: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 0.5, 7, 2**53, 10**30, 1e308, -1e308, float("nan"), float("inf"), "", "x", "7",
    "x" * 20_000, "\ud800", "\x1b[31m\r\n", "</script><script>alert(1)</script>", "=1+1", "../../etc/passwd",
    "target:x", "2026-13-45T99:99", "cluster",
    [], {}, [[]], [None], [1], ["a"], {"": 1}, {"a": None}, {"a": {}}, {"a": []},
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all members of a JSON value."""
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    return [p for key, member in members for p in ((*path, key), *places(member, (*path, key)))]


def mutated(value: Any, chance: random.Random) -> Any:
    """Return a JSON value with one or two changes somewhere in it."""
    value = json.loads(json.dumps(value))
    for _ in range(chance.choice((1, 1, 1, 2))):
        paths = places(value)
        if not paths:
            return chance.choice(VALUES)
        # by depth first, so that the rare outer fields are changed as often as the many inner ones
        depth = chance.choice(sorted({len(path) for path in paths}))
        *outer, key = chance.choice([path for path in paths if len(path) == depth])
        parent = value
        for step in outer:
            parent = parent[step]
        match chance.randrange(5):
            case 0:
                del parent[key]
            case 1:
                parent[key] = [parent[key]]
            case 2 if isinstance(parent, dict):
                parent[chance.choice(("", "x", "\ud800", "__class__", "a\nb", "=1"))] = parent.pop(key)
            case 3 if isinstance(parent, list):
                parent.extend([parent[key]] * chance.choice((1, 3000)))
            case _:
                # A copy, so that the next mutation does not change the list itself.
                parent[key] = json.loads(json.dumps(chance.choice(VALUES)))
    return value


RAW: tuple[bytes, ...] = (
    b"", b"{", b"null", b"7", b"[]", b'"x"', b"{}", b"\xff\xfe", b"\xef\xbb\xbf{}", b"\x00" * 100, b"[" * 100_000,
    b'{"a":' * 90_000 + b"1" + b"}" * 90_000, b'{"a": ' + b"9" * 5_000 + b"}", b"{} {}", b"x" * 100_000, b"\r", b"NaN",
)  # fmt: skip


def mutate(run: Path, chance: random.Random) -> str:
    """Change one file of a record. Return its name."""
    name = chance.choice(list(FILES))
    path = run / name
    raw = path.read_bytes()
    if name == "run.json":
        facts = json.loads(raw)
        new = chance.choice(RAW) if chance.random() < 0.05 else _bytes(mutated(facts, chance))
    else:
        lines = raw.splitlines()
        place = chance.randrange(len(lines))
        kind = chance.random()
        if kind < 0.1:
            lines[place] = chance.choice(RAW)
        elif kind < 0.2:
            lines[place] = lines[place][: chance.randrange(len(lines[place]))]
        else:
            lines[place] = _bytes(mutated(json.loads(lines[place]), chance))
        new = b"\n".join(lines) + b"\n" * chance.choice((0, 1, 1))
    path.write_bytes(new)
    if chance.random() < 0.6:
        with contextlib.suppress(ValueError, TypeError, AttributeError, RecursionError):
            finish(run)
    return name


def _bytes(value: Any) -> bytes:
    return json.dumps(value).encode()


#: the readers that take longest; each mutation is read by one of them, and by all others
SLOW = ("export verdicts", "site", "report")


def test_mutated_records(shards: Path, tmp_path: Path) -> None:
    """30 changes to a real record: no traceback, no hang, one line that names the file."""
    for number in range(30):
        folder = tmp_path / f"mutation-{number}"
        run = copied(shards, folder)
        name = mutate(run, random.Random(number))
        errors = read_all(run, shards / "run-2", folder, {*SLOW} - {SLOW[number % len(SLOW)]})
        for reader, error in errors.items():
            if reader not in ("merge", "compare") and "show" in errors:
                assert str(run / name) in error, (number, name, reader, error)
        shutil.rmtree(folder)


def test_a_report_on_verdicts_without_their_values(
    shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A benchmark's section is the common one with a warning if its own needs what the record lacks."""

    def lacking(measured: object) -> None:
        raise KeyError("control")

    monkeypatch.setattr("pytest_llmprops.benchmarks.eras.report.section", lacking)
    assert command("report", shards / "run-1", "--out", tmp_path / "report") == ""
    page = (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    assert "The tables and figures of eras cannot be made from this record: KeyError: 'control'" in page
    assert page.count("cannot be made") == 1


def test_the_schema_says_what_is_read(shards: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``llmprops runs export --schema`` prints a JSON Schema that accepts what is read."""
    assert main(["runs", "export", "--schema"]) == 0
    published = json.loads(capsys.readouterr().out)
    assert published == json_schema()
    chance = random.Random(1)
    refused = 0
    for name, file in FILES.items():
        lines = (shards / "run-1" / name).read_bytes()
        rows = [json.loads(text) for text in ([lines] if name == "run.json" else lines.splitlines()[:200])]
        for row_ in rows:
            special = {"prefix_id": "prefix", "discarded": "discarded"}
            kind = next((special[key] for key in special if key in row_), next(iter(file.kinds)))
            validator = jsonschema.Draft202012Validator({**published, "$ref": f"#/$defs/{kind}"})
            validator.validate(row_)
            before = json.dumps(row_)
            for _ in range(30 if name in ("run.json", "searches.jsonl", "review.jsonl") else 3):
                other = mutated(row_, chance)
                text = json.dumps(other)
                # JSON has no NaN, and 1.0 is an integer of JSON Schema. A list with 3,000 copies of a member, which is
                # slow to check, fits if the member does.
                is_long = len(text) > len(before) + 50_000
                if (
                    re.search(r"NaN|Infinity|\\ud800", text)
                    or is_long
                    or text.count(".0") > before.count(".0")
                ):
                    continue
                is_valid = validator.is_valid(other)
                refused += not is_valid
                with contextlib.nullcontext() if is_valid else pytest.raises(ValueError, match="has "):
                    from_plain(file.kinds[kind], other)
    assert refused > 100
