"""``llmprops runs import``: results of other tools as a recorded run, which is judged like one of this package.

What a file does not say about its measurement is not guessed. ``options.unsaid`` of ``run.json`` names it, and
comparisons have it as a caveat (:mod:`~pytest_llmprops.runs.comparable`).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from pytest_llmprops.benchmark_registry import installed_facts
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.field_types import DEEPEST, LAST_SAMPLE, TEXT, RecordStatus
from pytest_llmprops.core.registration import BenchmarkMetadata
from pytest_llmprops.core.strict_json import JSON, parsed_json, short, strict_json
from pytest_llmprops.core.texts import first_names, one_line, shortened, utf8
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.data.sheet_files import read_table
from pytest_llmprops.records.files import is_too_deep, line
from pytest_llmprops.records.run import CallFacts, ModelMetadata, ProtocolMetadata, RunMetadata
from pytest_llmprops.runs.comparable import UNSAID
from pytest_llmprops.runs.reader import computed_metrics
from pytest_llmprops.runs.record import DEFAULT_ROOT, RunRecord, new_run_folder, remove_record, utc_now
from pytest_llmprops.runs.summary import summary_rows

#: bytes of a file, which is read as a whole
LARGEST = 1 << 30
#: characters of an id, and of the name of a model, benchmark, task, language, cluster or source
LONGEST_NAME = 200
#: fields of a plain file besides the score; other fields with numbers become ``values``
FIELDS = ("id", "task", "language", "source", "cluster", "sample", "expected", "given")
SCORES = {"score", "correct"}
_WORDS = {
    **dict.fromkeys(("true", "yes", "y", "correct", "pass"), 1.0),
    **dict.fromkeys(("false", "no", "n", "wrong", "incorrect", "fail"), 0.0),
}
#: inspect_ai's words for correct, incorrect, partial, and no answer
_INSPECT = {"C": 1.0, "I": 0.0, "P": 0.5, "N": "unparsed"}
#: parameters that change replies. Others, such as an address or a key, are not recorded.
_PARAMETERS = (
    "temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens", "max_gen_toks", "until", "stop_seqs",
    "do_sample", "frequency_penalty", "presence_penalty", "system_message", "reasoning_effort", "reasoning_tokens",
)  # fmt: skip
_SAMPLES_FILE = re.compile(r"samples_(.+)_\d{4}-\d\d-\d\dT[\d.-]+")

Rows: TypeAlias = "list[tuple[str, dict[str, Any]]]"
#: the place in the file, the number of the sample (None: the next one of the item), and the verdict
Answer: TypeAlias = "tuple[str, float | None, VerdictRecord]"


@dataclass(frozen=True, slots=True)
class _Results:
    """The content of one file.

    :param name: of the task or data set. :param settings: of the protocol. :param stopped: why results are missing.
    """

    tool: str
    name: Any
    answers: list[Answer]
    settings: Mapping[str, JSON] = field(default_factory=dict)
    seed: Any = None
    started: str = ""
    version: Any = None
    stopped: str | None = None
    unsaid: tuple[str, ...] = ()


def import_results(
    file: Path,
    model: str,
    *,
    benchmark: str = "",
    score: str = "",
    threshold: float | None = None,
    out: Path | None = None,
    clean: Callable[[str], str] = str,
) -> Path:
    """Write a run with the results in a file; return its folder.

    :param model: the label of the model; of a promptfoo file with several providers, the one to read.
    :param benchmark: default: the name of the task or data set in the file, or the file's name.
    :param score: the column, metric or scorer to read, if the file has several.
    :param threshold: the lowest score that is correct; needed for scores other than 0 and 1.
    :param out: the run's folder; default: ``reports/runs/imported-BENCHMARK-MODEL``.
    :param clean: removes keys from an error message.
    :raises DataError: for an unknown format or a wrong value, with its place.
    :raises UsageError: if the folder exists, or for a threshold that is not finite.
    """
    if threshold is not None and not math.isfinite(threshold):
        raise UsageError(f"--threshold {threshold}: give a finite number")
    reader = _Reader(file, model, score, threshold, clean)
    reader.name("--model", model)
    results = reader.results()
    benchmark = reader.name("--benchmark", benchmark or results.name)
    records = reader.records(results.answers, benchmark)
    folder = out or DEFAULT_ROOT / re.sub(r"[^A-Za-z0-9._=-]+", "_", f"imported-{benchmark}-{model}")
    if folder.exists():
        raise UsageError(f"{folder}: already exists; remove it, or give a new folder with --out DIR")
    new_run_folder(str(folder), (), Path())
    seed = results.seed if type(results.seed) is int else None
    protocol = ProtocolMetadata(results.tool, results.settings, seed) if results.settings else None
    unsaid = [*results.unsaid, *([] if protocol else ["protocol"]), *(["seed"] if seed is None else [])]
    facts = RunMetadata(
        folder.name, benchmarks={benchmark: installed_facts(benchmark) or BenchmarkMetadata.unknown(benchmark)},
        started=results.started or utc_now(), expected=len(records), stopped=results.stopped,
        models={model: ModelMetadata(model, imported=True, served_as=())}, calls=CallFacts(cost_usd=0.0),
        protocols={benchmark: protocol} if protocol else {}, options={UNSAID: unsaid},
        versions={results.tool: one_line(str(results.version), LONGEST_NAME)} if results.version else {},
        notes=(f"imported from {one_line(file.name)} ({results.tool})",),
        summary=summary_rows(records), metrics=computed_metrics(records)[0],
    )  # fmt: skip
    try:
        record = RunRecord(folder, facts)
        record.add_lines(b"".join(map(line, records)).decode(), records)
        record.finish(replace(facts, complete=results.stopped is None))
    except BaseException:
        remove_record(folder)
        raise
    return folder


@dataclass(frozen=True)
class _Reader:
    """Reads one file, which is not trusted."""

    file: Path
    model: str
    score: str
    threshold: float | None
    clean: Callable[[str], str]

    def error(self, problem: str) -> DataError:
        return DataError(f"{self.file}: {problem}")

    def results(self) -> _Results:
        """Read the file; its content shows its format."""
        if not self.file.is_file():
            raise self.error("no such file; give the file that the tool wrote")
        if (size := self.file.stat().st_size) > LARGEST:
            raise self.error(f"has {size:,} bytes; the limit is {LARGEST:,}: split it")
        raw = self.file.read_bytes()
        if raw.startswith(b"PK"):
            raise self.error("is an archive; for a log of inspect_ai: inspect log dump FILE.eval > FILE.json")
        text = utf8(raw, str(self.file))
        if text.lstrip()[:1] not in ("{", "["):
            table = read_table(self.file, "id")
            return self._plain([(f"line {row.line}", row.cells) for row in table.records])
        if is_too_deep(raw):
            raise self.error(f"has more than {DEEPEST} lists and objects in each other; flatten it")
        try:
            document = parsed_json(text)
        except ValueError as error:
            if "Extra data" not in str(error):
                raise self.error(f"not JSON: {error}; give the whole file") from None
            document = self._lines(text.lstrip().partition("\n")[0], parsed_json)[0][1]
        match document:
            case {"eval": dict(), "plan": dict()}:
                return self._inspect(document)
            case {"results": {"results": list()}}:
                return self._promptfoo(document)
            case {"doc_id": _, "doc": _}:
                return self._lm_eval(self._lines(text, parsed_json))
            case {"id": _}:
                return self._plain(self._lines(text, strict_json))
        raise self.error(
            "is in no known format: JSON Lines or CSV with 'id' and 'score', a log of inspect_ai in JSON,"
            " samples_*.jsonl of lm-evaluation-harness, results of promptfoo in JSON"
        )

    def _lines(self, text: str, read: Callable[[str], Any]) -> Rows:
        rows = []
        # Not splitlines(): it would split at U+2028 and other characters that a JSON string may contain.
        for number, row in enumerate(text.split("\n"), 1):
            try:
                rows += [(f"line {number}", read(row))] if row.strip() else []
            except ValueError as error:
                raise self.error(f"line {number}: not JSON: {error}; correct the line") from None
        return self._objects(rows)

    def _numbered(self, what: str, values: Any) -> Rows:
        return self._objects([(f"{what} {number}", value) for number, value in enumerate(_list(values), 1)])

    def _objects(self, rows: Rows) -> Rows:
        for place, row in rows:
            if not isinstance(row, dict):
                raise self.error(f"{place}: not a JSON object; give the file as it was written")
        return rows

    def _chosen(self, names: Iterable[str], what: str) -> str:
        """Return the name that ``--score`` gives, or the only one."""
        known = list(dict.fromkeys(names))
        if self.score not in known and (self.score or len(known) != 1):
            problem = f"has no {what} {short(self.score)}" if self.score else f"has {len(known)} {what}s"
            listed = first_names(map(one_line, known), 8)
            raise self.error(f"{problem}; choose one with --score NAME ({listed or 'none found'})")
        return self.score or known[0]

    def _plain(self, rows: Rows) -> _Results:
        names = dict.fromkeys(name for _, row in rows for name in row)
        column = self._chosen(names if self.score else sorted(names.keys() & SCORES), "score column")
        answers = []
        for place, row in rows:
            for name in ("id", column):
                if name not in row:
                    raise self.error(f"{place}: has no {short(name)}; write null for an item without a score")
            known = {"sample": 0, **{n: row[n] for n in FIELDS if row.get(n) not in (None, "")}}
            others = {one_line(n): _number(row[n]) for n in row if n not in (*FIELDS, *SCORES, column)}
            values = {name: number for name, number in others.items() if number is not None}
            answers.append(self._answer(place, known.pop("id", ""), row[column], values=values, **known))
        return _Results("results file", self.file.stem, answers, unsaid=("data",))

    def _lm_eval(self, rows: Rows) -> _Results:
        """Read ``samples_TASK_TIME.jsonl``, which ``lm_eval run --log_samples`` writes."""
        match = _SAMPLES_FILE.fullmatch(self.file.stem)
        name = match[1] if match else self.file.stem
        names = {f"{metric},{row.get('filter')}" for _, row in rows for metric in _list(row.get("metrics"))}
        metric, _, used = self._chosen(sorted(names), "metric").rpartition(",")
        rows = [(place, row) for place, row in rows if str(row.get("filter")) == used]
        answers = [
            self._answer(
                place, f"{name}/{row.get('doc_id')}-{_digest(row.get('doc'), row.get('target'))}", row.get(metric),
                expected=row.get("target"), given=row.get("filtered_resps"), task=name,
            )
            for place, row in rows
        ]  # fmt: skip
        settings = _parameters(_member(rows[0][1], "arguments", "gen_args_0", "arg_1"))
        settings["prompts"] = _digest(sorted(str(row.get("prompt_hash")) for _, row in rows))
        return _Results("lm-evaluation-harness", name, answers, settings)

    def _inspect(self, log: dict[str, Any]) -> _Results:
        """Read a log that ``inspect eval --log-format json`` or ``inspect log dump`` writes."""
        task, samples, answers = log["eval"], self._numbered("sample", log.get("samples")), []
        name = task.get("task") or self.file.stem
        scorer = self._chosen((n for _, row in samples for n in _object(row.get("scores"))), "scorer")
        for place, sample in samples:
            score = _member(sample, "scores", scorer)
            asked, target = sample.get("input"), sample.get("target")
            value = _member(score, "value")
            if isinstance(asked, list):
                # Without the ids of messages, which are random.
                asked = [(_member(message, "role"), _member(message, "content")) for message in asked]
            answers.append(
                self._answer(
                    place, f"{name}/{sample.get('id')}-{_digest(asked, target)}",
                    _INSPECT.get(value, value) if isinstance(value, str) else value, task=name, expected=target,
                    given=_member(score, "answer") or _member(sample, "output", "completion"),
                    sample=sample.get("epoch"), error=_member(sample, "error", "message"),
                )
            )  # fmt: skip
        config, status = _member(log, "plan", "config"), log.get("status")
        steps = _list(log["plan"].get("steps"))
        solvers = _text([_text(_member(step, "solver")) for step in steps])
        # A hash, because arguments may be long, or secret.
        arguments = _digest([_member(step, "params") for step in steps], task.get("task_args"))
        return _Results(
            "inspect_ai", name, answers,
            {**_parameters(config), "solvers": solvers, "arguments": arguments},
            _member(config, "seed"), _time(task.get("created")), _member(task, "packages", "inspect_ai"),
            None if status == "success" else f"the log has the status {one_line(str(status), 60)}",
        )  # fmt: skip

    def _promptfoo(self, document: dict[str, Any]) -> _Results:
        """Read the results that ``promptfoo eval --output FILE.json`` writes."""
        rows, answers = self._numbered("result", document["results"]["results"]), []
        providers = list(dict.fromkeys(_provider(row) for _, row in rows))
        if len(providers) > 1 and self.model not in providers:
            listed = first_names(map(one_line, providers), 8)
            raise self.error(f"has {len(providers)} providers; name one of them with --model ({listed})")
        provider = providers[0] if len(providers) == 1 else self.model
        for place, row in rows:
            if _provider(row) != provider:
                continue
            # The number of a test is no id: it changes when a test is added before it, and it counts repeats.
            test = _digest(*(_member(row, "testCase", part) for part in ("vars", "assert")))
            checks = _list(_member(row, "gradingResult", "componentResults"))
            answers.append(
                self._answer(
                    place, _digest(test, _member(row, "prompt", "raw")), row.get("success"),
                    expected=[_text(_member(check, "metadata", "renderedAssertionValue")) for check in checks],
                    given=_member(row, "response", "output"), cluster=test,
                    error=row.get("failureReason") == 2 and (row.get("error") or "no reply"),
                )
            )  # fmt: skip
        own = [
            _member(known, "config")
            for known in _list(_member(document, "config", "providers"))
            if provider in (_member(known, "id"), _member(known, "label"))
        ] or [None]
        return _Results(
            "promptfoo", _member(document, "config", "description") or self.file.stem, answers, _parameters(own[0]),
            _member(own[0], "seed"), _time(document["results"].get("timestamp")),
            _member(document, "metadata", "promptfooVersion"),
        )  # fmt: skip

    def _answer(
        self, place: str, item: Any, score: Any, *, sample: Any = None, expected: Any = "", given: Any = "",
        task: Any = "", language: Any = "", source: Any = "imported", cluster: Any = "", error: Any = "",
        values: Mapping[str, float] | None = None,
    ) -> Answer:  # fmt: skip
        """Check what the file says about one sample of an item, and return it.

        :param score: a number, a truth value, a word for one, ``unparsed`` or ``refused``; None for an error.
        """
        error = error or ("no score" if score is None or score == "" else "")
        status: RecordStatus = "error" if error else self._status(place, score)
        number = None if sample is None else _number(sample)
        if sample is not None and (number is None or number % 1 or not 0 <= number <= LAST_SAMPLE):
            raise self.error(f"{place}: sample {short(_text(sample))}: write a whole number from 0 on")
        item = self.name(f"{place}: id", item)
        names = {"source": source, "cluster": cluster or item, "task": task, "language": language}
        named: dict[str, Any] = {n: v if v == "" else self.name(f"{place}: {n}", v) for n, v in names.items()}
        reason = self.clean(one_line(_text(error), 500)) if error else "as the imported file says"
        return place, number, VerdictRecord(
            **named, id=item, model=self.model, benchmark="", sample=0, status=status,
            score=None if error else float(status == "correct"), expected=_text(expected), given=_text(given),
            reason=reason, values=values or {}, requests=(),
        )  # fmt: skip

    def _status(self, place: str, score: Any) -> RecordStatus:
        if score in ("refused", "unparsed"):
            return "refused" if score == "refused" else "unparsed"
        value = _WORDS.get(score.strip().casefold() if isinstance(score, str) else "", _number(score))
        if value is None:
            raise self.error(f"{place}: the score is {short(_text(score))}; write a number, true or false")
        if self.threshold is None and value not in (0.0, 1.0):
            problem = f"the score {value:g} is neither 0 nor 1"
            raise self.error(f"{place}: {problem}; give the lowest correct score with --threshold X")
        return "correct" if value >= (1.0 if self.threshold is None else self.threshold) else "wrong"

    def records(self, answers: Iterable[Answer], benchmark: str) -> list[VerdictRecord]:
        """Return the verdicts, with the samples of each item numbered from 0.

        :raises DataError: without any, or if an item occurs twice with the same sample.
        """
        items: dict[tuple[str, str], dict[float, tuple[str, VerdictRecord]]] = {}
        for place, number, record in answers:
            own = items.setdefault((record.source, record.id), {})
            sample = len(own) if number is None else number
            if sample in own:
                again = f"repeats the item {short(record.id)} of {own[sample][0]}"
                raise self.error(f"{place}: {again}; number its repeats in 'sample'")
            own[sample] = place, replace(record, benchmark=benchmark, task=record.task or benchmark)
        if not items:
            raise self.error("has no results; give the file of a finished run")
        return [
            replace(record, sample=number)
            for own in items.values()
            for number, (_, (_, record)) in enumerate(sorted(own.items()))
        ]

    def name(self, what: str, value: Any) -> str:
        """Return a name, which may be a whole number, as text.

        :raises DataError: unless it is one printable line.
        """
        text = str(value) if isinstance(value, str) or type(value) is int else ""
        if text.strip() and len(text) <= LONGEST_NAME and text.isprintable():
            return text
        raise self.error(f"{what} {short(_text(value))}: use one line of 1 to {LONGEST_NAME} characters")


def _number(value: Any) -> float | None:
    """Return a finite number, or a truth value as one; None for anything else."""
    try:
        number = float(value) if isinstance(value, str | int | float) else math.nan
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _text(value: Any) -> str:
    """Return what people read: texts as they are, a list of texts joined, the rest as JSON."""
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        value = " / ".join(filter(None, value))
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return shortened(text.encode("utf-8", "replace").decode(), TEXT)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _member(value: Any, *keys: str) -> Any:
    """Return a member of objects in each other; None if there is none."""
    for key in keys:
        value = _object(value).get(key)
    return value


def _digest(*parts: Any) -> str:
    """Return a short hash of what an item asks: items of different data then have different ids."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def _parameters(options: Any) -> dict[str, JSON]:
    return {name: _text(value) for name, value in _object(options).items() if name in _PARAMETERS}


def _provider(row: Any) -> str:
    return _text(_member(row, "provider", "label") or _member(row, "provider", "id"))


def _time(value: Any) -> str:
    """Return a time with a zone in ISO 8601, UTC, in seconds; empty if it is not one."""
    try:
        time = datetime.fromisoformat(value)
        return time.astimezone(UTC).isoformat(timespec="seconds") if time.tzinfo else ""
    except (TypeError, ValueError, OverflowError):
        return ""
