"""Items of the oracle-checker: sentences for the linearity test, and pairs for the paraphrase decision.

Files in the data folder. Only the built-in ones are required:

=============================================  ===================================================================
``oracle/general.jsonl``, ``technical.jsonl``  built in: sentences with labelled entities
``oracle/hardware.jsonl``                      the same, in the style of the RISC-V manuals
``oracle/pairs.jsonl``                         built in: pairs of sentences with their label
``redocred/*_revised.json``                    published: Re-DocRED, for DocRED (``redocred``)
``msrp/msr_paraphrase_*.txt``                  published: the Microsoft Research Paraphrase Corpus
``oracle/sentences.txt``                       the user's own sentences, one per line, without labels
=============================================  ===================================================================

Fields of ``linearity``: ``text``; ``entities``, a tuple of (name, kind), where ``text`` contains every name literally;
``domain`` (``general``, ``technical``, ``hardware``, ``published`` or ``own``). The items of a Re-DocRED document are
one cluster.

Fields of ``yes`` and ``no``, the tasks of pairs labelled equivalent and not equivalent: ``first``, ``second``,
``label`` (a bool) and ``level`` (``clear`` or ``subtle``, "" in published pairs).
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from pytest_llmprops.benchmarks.oracle.redocred import labelled_sentences
from pytest_llmprops.core.benchmark import DataFiles
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.items import CONTROL_MARK, Item
from pytest_llmprops.core.protocols import generator

LINEARITY, YES, NO = "linearity", "yes", "no"
#: the sanity checks
CONSISTENCY, OWN, RANDOM = "consistency", "own_paraphrase", "random_pair"
#: the task of rows over all pairs, whatever the answer
PAIRS = "pairs"
LANGUAGE = "en"
DOMAINS = ("general", "technical", "hardware")
LEVELS = ("clear", "subtle")
PAIRS_FILE = "oracle/pairs.jsonl"
OWN_FILE = "oracle/sentences.txt"
#: letter in the ids of the items -> file
REDOCRED: Mapping[str, str] = {
    "d": "redocred/dev_revised.json",
    "t": "redocred/test_revised.json",
    "r": "redocred/train_revised.json",
}
MSRP = ("msrp/msr_paraphrase_train.txt", "msrp/msr_paraphrase_test.txt")
MSRP_COLUMNS = ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")
#: maximum length of a sentence, in characters
LONGEST = 2000

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}\Z")


def items(files: DataFiles) -> Iterator[Item]:
    """Yield the items of all available files: sentences, then pairs, in the order of each file.

    :raises DataError: if a file is invalid, or if no file exists.
    """
    if files.source == "builtin":
        for domain in DOMAINS:
            yield from _labelled_items(files, domain)
        yield from _builtin_pairs(files)
        return
    published = files.source != "generated"
    corpora = {letter: path for letter, path in REDOCRED.items() if published and files.exists(path)}
    pairs = [path for path in MSRP if published and files.exists(path)]
    if not (corpora or pairs or files.exists(OWN_FILE)):
        files.text(MSRP[0] if published else OWN_FILE)  # raises DataError, which says how to get the file
    for letter, path in corpora.items():
        yield from _redocred_items(files, letter, path)
    if files.exists(OWN_FILE):
        yield from _own_items(files)
    yield from _msrp_items(files, pairs)


def own_sentences(text: str, path: str) -> tuple[str, ...]:
    """Return the different sentences of a text with one sentence per line, without blank lines.

    :param path: the file, for messages.
    :raises DataError: if there is no sentence, or a line has control characters or more than ``LONGEST`` characters.
    """
    sentences: dict[str, None] = {}
    # splitlines() also splits at characters that may be part of a sentence, such as U+2028.
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), start=1):
        sentence = " ".join(line.split())
        if len(sentence) > LONGEST:
            _fail(f"{path}: line {number}", f"{len(sentence)} characters", "write one sentence per line")
        if any(unicodedata.category(character) == "Cc" for character in sentence):
            _fail(
                f"{path}: line {number}", "has control characters", "write plain text, one sentence per line"
            )
        if sentence:
            sentences[sentence] = None
    if not sentences:
        _fail(path, "has no sentences", "write one sentence per line")
    return tuple(sentences)


def _linearity(
    name: str, text: str, entities: tuple[tuple[str, str], ...], domain: str, source: str, cluster: str = ""
) -> Item:
    fields = {"text": text, "entities": entities, "domain": domain}
    return Item(name, LINEARITY, LANGUAGE, source, cluster, fields)


def _labelled_items(files: DataFiles, domain: str) -> Iterator[Item]:
    path = f"oracle/{domain}.jsonl"
    for row in files.jsonl(path, required=("id", "text", "entities")):
        place = f"{path}: row {row['id']!r}"
        name = f"oracle/{domain}/{_id(row['id'], place)}"
        text = _sentence(row["text"], place)
        yield _linearity(name, text, _entities(row["entities"], text, place), domain, files.source)


def _entities(entities: Any, text: str, place: str) -> tuple[tuple[str, str], ...]:
    if type(entities) is not list:
        _fail(place, "'entities' is not a list", 'write [{"name": "Oslo", "kind": "city"}] or []')
    kinds: dict[str, str] = {}
    for entity in entities:
        name, kind = (entity.get("name"), entity.get("kind")) if type(entity) is dict else (None, None)
        if type(name) is not str or type(kind) is not str or not name.strip() or not kind.strip():
            _fail(place, f"invalid entity {entity!r}", 'write {"name": "Oslo", "kind": "city"}')
        if name in kinds:
            _fail(place, f"the entity {name!r} is listed twice", "list it once")
        if not occurs_in(name, text):
            _fail(place, f"the entity {name!r} is not in the text", "write the name as it is in the text")
        kinds[name] = kind
    return tuple(kinds.items())


def occurs_in(name: str, text: str) -> bool:
    """Return True if ``text`` contains ``name`` literally, and not as part of a longer word."""
    # To compile a regular expression per name takes longer than to read all items.
    begins_word, ends_word = name[:1].isalnum(), name[-1:].isalnum()
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        joined_left = begins_word and _is_in_word(text[start - 1 : start])
        joined_right = ends_word and _is_in_word(text[end : end + 1])
        if not joined_left and not joined_right:
            return True
        start = text.find(name, start + 1)
    return False


def _is_in_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _redocred_items(files: DataFiles, letter: str, path: str) -> Iterator[Item]:
    for sentence in labelled_sentences(files.json(path), path):
        cluster = f"oracle/p/{letter}{sentence.document:04d}"
        name = f"{cluster}-{sentence.sentence:02d}"
        yield _linearity(name, sentence.text, sentence.entities, "published", files.source, cluster)


def _own_items(files: DataFiles) -> Iterator[Item]:
    for number, text in enumerate(own_sentences(files.text(OWN_FILE), OWN_FILE), start=1):
        yield _linearity(f"oracle/own/{number:04d}", text, (), "own", "generated")


def _pair(name: str, first: str, second: str, label: bool, level: str, source: str) -> Item:
    fields = {"first": first, "second": second, "label": label, "level": level}
    return Item(name, YES if label else NO, LANGUAGE, source, fields=fields)


def _builtin_pairs(files: DataFiles) -> Iterator[Item]:
    for row in files.jsonl(PAIRS_FILE, required=("id", "first", "second", "label", "level")):
        place = f"{PAIRS_FILE}: row {row['id']!r}"
        name = f"oracle/pair/{_id(row['id'], place)}"
        label, level = row["label"], row["level"]
        if type(label) is not int or label not in (0, 1):
            _fail(place, f"the label is {label!r}", "write 1 for equivalent sentences, 0 for others")
        if level not in LEVELS:
            _fail(place, f"the level is {level!r}", f"write {' or '.join(LEVELS)}")
        first, second = _sentence(row["first"], place), _sentence(row["second"], place)
        yield _pair(name, first, second, label == 1, level, files.source)


def _msrp_items(files: DataFiles, paths: Iterable[str]) -> Iterator[Item]:
    seen: dict[str, str] = {}
    for path in paths:
        for number, row in enumerate(files.tsv_literal(path, required=MSRP_COLUMNS), start=1):
            place = f"{path}: row {number}"
            label, one, two, first, second = (row[column] for column in MSRP_COLUMNS)
            if label not in ("0", "1"):
                _fail(place, f"the Quality is {label!r}", "write 1 for equivalent sentences, 0 for others")
            pair = f"{_id(one, place)}-{_id(two, place)}"
            if pair in seen:
                _fail(place, f"repeats the pair {pair} of {seen[pair]}", "use different ids for every pair")
            seen[pair] = f"{path}, row {number}"
            first, second = _sentence(first, place), _sentence(second, place)
            yield _pair(f"oracle/pair/{pair}", first, second, label == "1", "", files.source)


def _id(value: Any, place: str) -> str:
    if type(value) is not str or not _ID.match(value):
        _fail(place, f"the id is {value!r}", "use up to 60 letters, digits and _ . -")
    return value


def _sentence(value: Any, place: str) -> str:
    if type(value) is not str or not value.strip():
        _fail(place, "a sentence is empty", "write the sentence")
    return value.strip()


def _fail(place: str, what: str, fix: str) -> NoReturn:
    raise DataError(f"{place}: {what}; {fix}")


#: the roles of the helpers that align sentences
PARSE, EMBED = "parse", "embed"
SYMMETRY = "symmetry"
#: the properties that can be searched
SEARCHES = (LINEARITY, NO, SYMMETRY)


#: maximum cases per check, as in the paper; a third of the pairs if that is fewer
MOST = 500
#: fixed, so that the items are the same in every run
_SEED = 0


def sanity_items(items: Sequence[Item]) -> Iterator[Item]:
    """Yield the items of the three sanity checks, built from the pairs among ``items``.

    They are pairs to ask about repeatedly, first sentences to paraphrase, and random pairs. The ids are those of the
    pairs with ``+consistency`` and ``+own_paraphrase``, and ``oracle/random/0001``.
    """
    by_source: dict[str, list[Item]] = {}
    for item in items:
        if item.task in (YES, NO):
            by_source.setdefault(item.source, []).append(item)
    for source, pairs in by_source.items():
        rng = generator(_SEED, "oracle", "sanity", source)
        count = min(MOST, len(pairs) // 3)
        for task in (CONSISTENCY, OWN):
            for item in sorted(rng.sample(pairs, count), key=lambda item: item.id):
                yield Item(
                    f"{item.id}{CONTROL_MARK}{task}", task, item.language, source, item.cluster, item.fields
                )
        firsts = [item["first"] for item in pairs]
        mark = "" if source == "builtin" else source[0]
        for number, pair in enumerate(random_pairs(firsts, rng, count) if count else (), 1):
            fields = {"first": pair[0], "second": pair[1], "label": False, "level": ""}
            yield Item(f"oracle/random/{mark}{number:04d}", RANDOM, pairs[0].language, source, "", fields)


def random_pairs(sentences: Sequence[str], rng: random.Random, count: int) -> list[tuple[str, str]]:
    """Draw pairs of two different sentences, which are not equivalent (third check).

    :raises ValueError: if there are fewer than two different sentences.
    """
    distinct = list(dict.fromkeys(sentences))
    if len(distinct) < 2:
        raise ValueError("random pairs need at least two different sentences: add sentences")
    return [(first, second) for first, second in (rng.sample(distinct, 2) for _ in range(count))]
