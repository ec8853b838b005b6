"""Score and fuzz everything that reads a model's reply: ``python -m bench labelled`` and ``python -m bench readers``.

Labelled replies are in ``fixtures/replies`` or, with ``LLMPROPS_REPLIES``, in another folder. A person wrote each label
before a reader saw the reply.

Three fuzzers make replies of 10,000 characters: a grammar (random pieces of the words and marks that a reader looks
for), mutations (well-formed replies, spliced and damaged), and repetitions (one to four pieces, over and over), which
find patterns that backtrack. A reader must not raise, must read any such reply in 50 ms, and must take time in
proportion to the length.
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.process import PLAIN, ROOT, Bench, measure
from fixtures.replies import dtails_replies, labelled_replies
from pytest_llmprops.benchmarks.dtails.reading import (
    Variations,
    declines,
    paper_selection,
    paper_translation,
    read_selection,
    read_translation,
)
from pytest_llmprops.benchmarks.dtails.rules import read_rules
from pytest_llmprops.benchmarks.eras.explicit import judge_site, read_segmentation
from pytest_llmprops.benchmarks.eras.sentiment import read_answer as read_sentiment
from pytest_llmprops.benchmarks.homophones.reading import Match
from pytest_llmprops.benchmarks.homophones.reading import judge as judge_homophone
from pytest_llmprops.benchmarks.htest.benchmark import HTest, read_label, read_option
from pytest_llmprops.benchmarks.htest.items import GEOMETRY, LABELS
from pytest_llmprops.benchmarks.oracle.extraction import Entity, normalised, read_list
from pytest_llmprops.benchmarks.oracle.replies import read_answer, read_paraphrases
from pytest_llmprops.benchmarks.oracle.synonyms import counted, read_named
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.reading import fenced, listed, segmented, stated
from pytest_llmprops.core.requests import Reply
from pytest_llmprops.core.segmentation import boundaries
from pytest_llmprops.core.strict_json import strict_json
from pytest_llmprops.core.texts import unicode_words
from pytest_llmprops.data.files import DataFolder, builtin_data

MATCHES: tuple[Match, ...] = ("line", "contains")
#: replies that somebody wrote and labelled before a reader saw them
LABELLED = ROOT / "fixtures" / "replies"
LENGTH = 10_000
LIMIT_MS = 50.0
#: A reader's time grows below this power of the length; 1 is linear, 2 quadratic.
GROWTH = 1.2
#: lengths at which the growth is measured, in characters
LENGTHS = (25_000, 50_000, 100_000)
#: Below this, the constant part of a reader's time and the clock's resolution decide, in milliseconds.
_LEAST_MS = 2.0
#: Marks that any reader may look for.
_MARKS = (
    " ", "  ", "\n", "\n\n", "\t", ".", ",", ", ", ":", ";", "!", "?", '"', "'", "“", "”", "(", ")", "[", "]", "{", "}",
    "*", "**", "_", "__", "`", "```", "~~", "<", ">", "<s>", "</s>", "/", "\\", "-", "- ", "–",
    "1. ", "2. ", "a", "I", "0", "。", "，", "、", "：", "；", "？", "（", "）", "「", "」", "\u200b", "\u0301",
    "\ud800", "\x00", "=", "→", "×", "&amp;", "\\u0041", "\\boxed{", "not ", "no ", "or ", "and ", "is ", "the ",
)  # fmt: skip


@dataclass(frozen=True)
class Reader:
    """A function that reads a reply, well-formed replies for it, and further pieces that it looks for."""

    name: str
    read: Callable[[str], object]
    samples: tuple[str, ...]
    pieces: tuple[str, ...] = ()

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """Return the pieces of grammar: marks, the reader's own pieces, and the words of its samples."""
        words = {word for text in self.samples for word in re.findall(r"\w+|[^\w\s]", text)}
        return (*_MARKS, *self.pieces, *sorted(words), *(f"{word} " for word in sorted(words)))


@dataclass(frozen=True, slots=True)
class Timed:
    """A reply, the fuzzer that made it, and the CPU time to read it in milliseconds."""

    fuzzer: str
    reply: str
    milliseconds: float


def _rows(path: str) -> list[dict[str, object]]:
    text = (ROOT / "data" / path).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines() if line]


def _homophones() -> Iterator[Reader]:
    samples = (
        'It means "candle".', "I cannot tell.", "Not a candle.\nANSWER: cinder", "含义是“蜡烛”。", "Es una vela.",
    )  # fmt: skip
    pieces = ("candle", "ANSWER: ", "not candle, ", '"candle" or ', "without context", "不是蜡烛", "蜡烛")
    item = _homophone("fuzzed", "en", "kanndul", "A kanndul.", ["candle"])

    def read(reply: str, match: Match) -> object:
        return judge_homophone(item, Reply(reply), {}, match, question="?", asks=1)

    for match in MATCHES:
        yield Reader(f"homophones {match}", partial(read, match=match), samples, pieces)


def _homophone(name: str, language: str, word: str, sentence: str, answers: Iterable[str]) -> Item:
    fields = {"word": word, "sentence": sentence, "answers": tuple(answers)}
    fields |= {"function_word": False, "dialect": ""}  # type: ignore[dict-item]
    return Item(f"homophones/{name}", "asked", language, "builtin", fields=fields)


_SENTENCE = "I know that he will come (today), so I stay. Do you know him?"


def _choices(reply: str, variations: Variations) -> object:
    # A reply without exactly two fences is not read at all.
    text = f"```{reply.replace('```', ' ')}```"
    return read_selection(text, variations), paper_selection(text, variations), declines(reply)


def _translations(reply: str, variations: Variations) -> object:
    words = unicode_words(reply)
    return (
        read_translation(reply, variations, words, source=_SENTENCE, concept="come"),
        paper_translation(reply, variations, words),
        declines(reply, variations, _SENTENCE),
    )


def _rules(reply: str, variations: Variations) -> object:
    with suppress(ValueError):
        return read_rules(reply, ["/".join(forms) for forms in variations])
    return None


def _dtails() -> Iterator[Reader]:
    lists: dict[str, tuple[tuple[str, ...], ...]] = {
        "af": (("ken",), ("weet", "verstaan"), ("eet",)),
        "ja": (("着る", "きる"), ("履く",), ("炊く",)),
        "ta": (("வீடு",), ("இல்லம்", "மனை"), ("அரிசி",)),
    }
    for language, variations in lists.items():
        inside = tuple(row["answer"] for row in dtails_replies() if row["language"] == language)
        names = tuple(form for forms in variations for form in forms)
        document = json.dumps({"/".join(forms): "Used for x." for forms in variations}, ensure_ascii=False)
        marks = (*names, "Note: ", "Translation: ", "(or: ", "1. ", _SENTENCE, "~~", "→")
        fenced_samples = tuple(f"```{text}```" for text in (*inside, *names))
        documents = (document, f"```json\n{document}\n```")
        for kind, read, samples, pieces in (
            ("choices", _choices, fenced_samples, names),
            ("translation", _translations, inside + names, marks),
            ("rules", _rules, documents, names),
        ):
            yield Reader(f"dtails {kind} {language}", partial(read, variations=variations), samples, pieces)


def _others() -> Iterator[Reader]:
    sentence = "他在研究生命的起源"
    yield Reader(
        "eras chat",
        lambda reply: (read_segmentation(reply, sentence), read_sentiment(reply)),
        ("他 在 研究 生命 的 起源", "```\n他/在/研究/生命/的/起源\n```", "A", "B. 负面", "不是正面"),
    )
    yield Reader(
        "htest letters",
        lambda reply: (
            read_label(reply),
            read_option(reply, LABELS),
            stated(reply, [(label,) for label in LABELS]),
            stated(reply, (("p",), ("b",))),
        ),
        ("A", "Label: B", "The answer is A.", "Let us think step by step. It is a or b. Label: a"),
    )
    yield Reader(
        "lists, segmentations and fences",
        lambda reply: (listed(reply), segmented(reply, sentence), fenced(reply)),
        ("1. city: Paris\n2. date: 1964", "- Huy (city)", "他 在 研究/生命 的 起源", "```text\nken\n```",
         "Entities: a, b and c"),
        ("| a | b |\n|---|---|\n", "1. ", "- ", "Wait, ", "[他]", "（名词）", "/n ", "错误：", "Explanation:", "<li>"),
    )  # fmt: skip
    yield Reader(
        "oracle json",
        lambda reply: (read_answer(reply), read_paraphrases(reply)),
        (
            '{"answer": "yes", "explanation": "They say the same."}',
            '```json\n{"paraphrases": ["He ran.", "He was running."]}\n```',
            "The answer is no. They are not equivalent: \"started\" is not 'ended'.",
            "1. He ran.\n2. 'He was running.'",
        ),
        ('{"answer": ', '"paraphrases": [', '{"a": ', "[[", "1e9", "NaN", "\\ud800"),
    )
    text = "Tom Cruise starred in Mission: Impossible."
    entity = Entity("Tom Cruise", "person", spans=((0, 10),))
    yield Reader(
        "oracle list",
        # Without its cache, which would answer repeated measurements.
        lambda reply: (read_list.__wrapped__(reply, text), read_list.__wrapped__(reply), read_named(Reply(reply)),
                       counted([Reply(reply)], entity, True)),
        ("1. person: Tom Cruise\n2. movie: Mission: Impossible", "- Tom Cruise (actor), Nicole Kidman", "None",
         "There are no named entities.", "city: Paris", "1. a 2. b 3. c", "[[named entity]]", "A, B, C and D",
         "| # | type | entity |\n|---|---|---|\n| 1 | person | Tom Cruise |", "- type: person\n  entity: Tom Cruise",
         '[{"type": "person", "name": "Tom Cruise"}]', "<person>Tom Cruise</person>", "1. person\n   - Tom Cruise"),
    )  # fmt: skip
    pieces = ('{"a": ', '"a": 1, ', "[[", "1e9", "-")
    yield Reader("strict json", _strict, ('{"a": 1, "b": [true, null, "c"]}',), pieces)


def _strict(reply: str) -> None:
    with suppress(ValueError):
        strict_json(reply)


def readers() -> list[Reader]:
    """Return all readers of the package's benchmarks."""
    return [*_homophones(), *_dtails(), *_others()]


def _grammar(reader: Reader, rng: random.Random, length: int) -> str:
    tokens = rng.sample(reader.tokens, min(len(reader.tokens), rng.choice((3, 10, 40, 400))))
    joiner = rng.choice(("", "", " ", "\n", ", "))
    size = max(1, length // (2 + len(joiner)))
    return joiner.join(rng.choices(tokens, k=size))[:length]


def _mutation(reader: Reader, rng: random.Random, length: int) -> str:
    parts: list[str] = []
    size = 0
    while size < length:
        text = rng.choice(reader.samples)
        for _ in range(rng.randrange(4)):
            at = rng.randrange(len(text) + 1)
            stop = rng.randrange(at, len(text) + 1)
            text = text[:at] + rng.choice((rng.choice(reader.tokens), text[at:stop] * 2)) + text[stop:]
        parts.append(text or " ")
        size += len(parts[-1])
    return rng.choice(("", " ", "\n")).join(parts)[:length]


def _repetition(reader: Reader, rng: random.Random, length: int) -> str:
    start, piece = _repeat(reader, rng)
    return repeated(piece, start)(length)


def _repeat(reader: Reader, rng: random.Random) -> tuple[str, str]:
    """Return a beginning, and one to four pieces of the reader's grammar to repeat after it."""
    piece = "".join(rng.choices(reader.tokens, k=rng.randint(1, 4)))
    return rng.choice(("", rng.choice(reader.samples), rng.choice(reader.tokens))), piece


FUZZERS: dict[str, Callable[[Reader, random.Random, int], str]] = {
    "grammar": _grammar,
    "mutation": _mutation,
    "repetition": _repetition,
}


def replies(reader: Reader, count: int, seed: int, length: int = LENGTH) -> Iterator[tuple[str, str]]:
    """Yield ``count`` pairs of a fuzzer's name and its reply of ``length`` characters, the same for a seed."""
    rng = random.Random(f"{seed} {reader.name}")
    names = list(FUZZERS)
    for number in range(count):
        name = names[number % len(names)]
        yield name, FUZZERS[name](reader, rng, length)


def timed(reader: Reader, fuzzer: str, reply: str, *, runs: int = 1) -> Timed:
    """Return the CPU time to read a reply, the minimum of several runs."""
    spent = []
    for _ in range(runs):
        start = time.process_time()
        reader.read(reply)
        spent.append(time.process_time() - start)
    return Timed(fuzzer, reply, min(spent) * 1000)


def slowest(reader: Reader, count: int, seed: int) -> Timed:
    """Return the slowest of ``count`` replies, measured again."""
    worst = sorted(
        (timed(reader, name, reply) for name, reply in replies(reader, count, seed)),
        key=lambda result: -result.milliseconds,
    )[:3]
    # The first measurement may be disturbed by other processes.
    return max((timed(reader, r.fuzzer, r.reply, runs=3) for r in worst), key=lambda r: r.milliseconds)


def growth(read: Callable[[str], object], make: Callable[[int], str], *, tries: int = 15) -> float:
    """Return the power of the length by which the time of a reader grows: the slope between logarithms.

    Each length is read again, up to ``tries`` times, while the slope of the minimum times is above ``GROWTH``: a
    process that is interrupted may measure anything once.

    :param make: returns a text of a length.
    """
    texts = [make(length) for length in LENGTHS]
    least = [math.inf] * len(texts)
    slope = math.inf
    for _ in range(tries):
        for place, text in enumerate(texts):
            start = time.process_time()
            read(text)
            least[place] = min(least[place], (time.process_time() - start) * 1000)
        logs = [math.log(max(one, _LEAST_MS)) for one in least]
        slope, _ = np.polyfit(np.log(LENGTHS), logs, 1)
        if slope < GROWTH:
            break
    return float(slope)


def repeated(piece: str, start: str = "") -> Callable[[int], str]:
    """Return a function that repeats a piece up to a length."""
    return lambda length: (start + piece * (length // len(piece) + 1))[:length]


def repetitions(reader: Reader, count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Return ``count`` pairs of a beginning and what to repeat after it, the same for a seed."""
    rng = random.Random(f"{seed} {reader.name}")
    return (_repeat(reader, rng) for _ in range(count))


#: Reads a labelled reply and answers in the words of its labels. Raises LookupError if the data lacks its item.
Scored = Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often a reader agrees with the labels.

    :param agreed: Number of equal readings, of ``total``.
    :param precision: Share of the replies read as an answer of which the label says the same.
    :param recall: Share of the replies labelled with an answer that are read as this answer.
    :param misread: (labelled row, reading) for every other reading.
    :param skipped: Number of rows whose item is not in the data.
    """

    agreed: int
    total: int
    precision: float
    recall: float
    misread: tuple[tuple[Mapping[str, Any], Any], ...]
    skipped: int = 0


def agreement(rows: Iterable[Mapping[str, Any]], read: Scored, positive: Any = None) -> Agreement:
    """Return the agreement of a reader with the labels.

    :param positive: The label whose precision and recall count; by default every label that is an answer.
    """
    readings, skipped = [], 0
    for row in rows:
        try:
            readings.append((row, read(row)))
        except LookupError:
            # Its item is in the published files only, or was replaced.
            skipped += 1

    def is_answer(label: Any) -> bool:
        return label == positive if positive is not None else label not in (None, "unparsed", 0)

    agreed = [(row, given) for row, given in readings if given == row["label"]]
    hits = sum(is_answer(given) for _, given in agreed)
    offered = sum(is_answer(given) for _, given in readings)
    labelled = sum(is_answer(row["label"]) for row, _ in readings)
    return Agreement(
        len(agreed),
        len(readings),
        hits / offered if offered else 1.0,
        hits / labelled if labelled else 1.0,
        tuple((row, given) for row, given in readings if given != row["label"]),
        skipped,
    )


def scored_readers(published: Path | None = None) -> dict[str, tuple[Scored, Any]]:
    """Return the reader of each file of labelled replies, and its positive label (see :func:`agreement`)."""
    from pytest_llmprops.benchmarks.dtails.benchmark import Dtails
    from pytest_llmprops.benchmarks.eras.paradigms import parse_builtin
    from pytest_llmprops.benchmarks.homophones.benchmark import Homophones, ask_about
    from pytest_llmprops.core.reasoning import answer_of

    def shown(row: Mapping[str, Any]) -> Reply:
        return answer_of(Reply(row["reply"]))[0]

    builtin = DataFolder(builtin_data(), "builtin")
    homophones: dict[str, Item] = {}
    for folder in (*([DataFolder(published, "published")] if published else []), builtin):
        part = Homophones().load(folder)
        homophones |= {item["word"]: item for item in part.items if item.task == "asked"}
    simplified = part.context

    def homophone(row: Mapping[str, Any]) -> str:
        # If the item was replaced after the reply was written, the row has its fields.
        item = homophones.get(row["item"]) or _homophone(
            "replaced", row["language"], row["item"], row["sentence"], row["answers"]
        )
        question = ask_about(item)
        status = judge_homophone(item, shown(row), simplified, "line", question=question, asks=1).status
        return {"correct": "C", "refused": "R"}.get(status, "W")

    choices = {item.id.removeprefix("dtails/"): item for item in Dtails().load(builtin).items}
    # Of a replaced item, the row has the sentence; the variations are those of its concept.
    concepts = {item.cluster.removeprefix("dtails/"): item for item in choices.values()}

    def variation(index: int | None, row: Mapping[str, Any], forms: Variations) -> str | None:
        if index is None:
            return None
        return row["label"] if row["label"] in forms[index] else forms[index][0]

    def select(row: Mapping[str, Any]) -> str | None:
        forms = concepts[row["item"].rpartition("/")[0]]["variations"]
        return variation(read_selection(shown(row).text, forms).index, row, forms)

    def translate(row: Mapping[str, Any]) -> str | None:
        item, text = concepts[row["item"].rpartition("/")[0]], shown(row).text
        forms, concept = item["variations"], item["concept"]
        source = row.get("sentence") or choices[row["item"]]["sentence"]
        reading = read_translation(text, forms, unicode_words(text), source=source, concept=concept)
        return variation(reading.index, row, forms)

    paradigms = {p.id: p for p in parse_builtin(builtin.json("eras/paradigms.json"))}

    def cut(row: Mapping[str, Any]) -> str:
        words, _ = read_segmentation(shown(row).text, row["sentence"])
        if not words:
            return "unparsed"
        paradigm = paradigms[row["item"]]
        start = row["sentence"].index(paradigm.site)
        edges = boundaries(words, row["sentence"])
        return "correct" if judge_site(edges, start, paradigm.branching) == "right" else "wrong"

    texts = {row["id"]: row["text"] for row in _rows("oracle/general.jsonl")}

    def names(row: Mapping[str, Any]) -> list[str] | None:
        entities = read_list(shown(row).text, str(texts[row["item"]])).entities
        found = None if entities is None else frozenset(normalised(e.name) for e in entities)
        expected = None if row["label"] is None else frozenset(map(normalised, row["label"]))
        return row["label"] if found == expected else sorted(found) if found is not None else ["(none read)"]

    def yes_or_no(row: Mapping[str, Any]) -> str | None:
        value = read_answer(shown(row).text).said
        return None if value is None else "yes" if value else "no"

    options = {
        item.id.rsplit("/", 1)[-1]: item for item in HTest().load(builtin).items if item.task == GEOMETRY
    }

    def letter(row: Mapping[str, Any]) -> str | None:
        # A row whose item was replaced has its options and the place of the right one.
        item = row if "options" in row else options[row["item"]]
        shown_options, right = item["options"], item["answer"]
        wrong = next(option for i, option in enumerate(shown_options) if i != right)
        text = row["reply"].replace("{R}", shown_options[right]).replace("{W}", wrong)
        text = text.replace("{ALL}", ", ".join(shown_options))
        chosen = stated(answer_of(Reply(text))[0].text, [(option,) for option in shown_options])
        return None if chosen is None else "right" if chosen == right else "wrong"

    def label(row: Mapping[str, Any]) -> str | None:
        chosen = stated(shown(row).text, [(label,) for label in LABELS])
        return None if chosen is None else LABELS[chosen]

    def sentiment(row: Mapping[str, Any]) -> str | None:
        return {"positive": "A", "negative": "B"}.get(read_sentiment(shown(row).text) or "")

    return {
        "homophones": (homophone, "C"),
        "dtails-select": (select, None),
        "dtails-translate": (translate, None),
        "eras-explicit": (cut, "correct"),
        "eras-implicit": (sentiment, None),
        "htest": (label, None),
        "htest-cot": (label, None),
        "htest-geometry": (letter, "right"),
        "oracle-list": (names, None),
        "oracle-yesno": (yes_or_no, None),
        "oracle-paraphrases": (lambda row: len(read_paraphrases(shown(row).text).texts), None),
    }


def score(bench: Bench) -> None:
    """Print the agreement of each reader with the labelled replies, by class, and what it misread."""
    folder = Path(os.environ.get("LLMPROPS_REPLIES") or LABELLED)
    data = os.environ.get("LLMPROPS_DATA")
    for name, (read, positive) in scored_readers(Path(data) if data else None).items():
        groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        # Not every folder has a file for each reader.
        for row in labelled_replies(name, folder) if (folder / f"{name}.jsonl").exists() else ():
            groups["all"].append(row)
            groups[{"p": "plain", "m": "messy", "a": "adversarial"}[row["cls"]]].append(row)
        if not groups:
            bench.line(f"{name}: precision / recall, agreement", f"skipped: no file {name}.jsonl in {folder}")
        for group, members in groups.items():
            one = agreement(members, read, positive)
            figures = f"{one.precision:.3f} / {one.recall:.3f}, {one.agreed} of {one.total}"
            if one.skipped:
                figures += f" ({one.skipped} skipped: their items are not in the data)"
            bench.line(f"{name}, {group}: precision / recall, agreement", figures)
            if group == "all":
                for misread, given in one.misread:
                    place, text = misread.get("item", ""), misread["reply"]
                    print(f"    {misread['label']!r} read as {given!r}: {place} {text!r}")


def know_nothing(bench: Bench) -> None:
    """Print the table of ``bench/README.md``: accuracy and warnings of the models in ``fixtures/degenerate.py``."""
    from fixtures.degenerate import MODELS, headline_results

    file = ROOT / "fixtures" / "degenerate.py"
    names = ("htest", "homophones", "dtails", "eras", "oracle")
    print(f"| model | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    for model in MODELS:
        run, name = bench.fresh("run"), model.__name__
        command = [
            sys.executable, "-m", "pytest", "suites", *PLAIN, "-q", "-p", "no:cacheprovider", "--llm-limit", "20",
            "--llm-helper", "parse=words", "-k", "not search", "--llm-run", str(run), "--llm-store",
            str(bench.fresh("store")), "--model", f"fake:call?file={file}&function={name}",
        ]  # fmt: skip
        measure(command, cwd=ROOT, env=bench.env, memory=False)
        facts = json.loads((run / "run.json").read_text(encoding="utf-8"))
        results = headline_results(facts)
        warned = {row["benchmark"] for row in facts["remarks"] if row["warning"]}
        said = {one: f"{r.accuracy:.1%}{', warned' if one in warned else ''}" for one, r in results.items()}
        cells = [said.get(one, "run stopped") for one in names]
        print(f"| {(model.__doc__ or '').rstrip('.')} (`{name}`) | {' | '.join(cells)} |", flush=True)


def fuzz(bench: Bench, count: int = 600, seed: int = 0) -> None:
    """Print the slowest reply of 10,000 characters for each reader, and its time for a reply of 1 MB."""
    for reader in readers():
        worst = slowest(reader, count, seed)
        spent = f"{worst.milliseconds:.1f} ms ({worst.fuzzer})"
        is_fast = worst.milliseconds <= LIMIT_MS
        bench.line(f"{reader.name}: slowest of {count} replies", spent, f"<= {LIMIT_MS:.0f} ms", is_fast)
        if not is_fast:
            print(f"    {worst.reply[:60]!r}")
        whole = timed(reader, worst.fuzzer, (worst.reply * 100)[: 100 * LENGTH]).milliseconds
        limit = 100 * LIMIT_MS
        bench.line(
            f"{reader.name}: the same, 1 MB", f"{whole:.0f} ms", f"<= {limit / 1000:.0f} s", whole <= limit
        )
