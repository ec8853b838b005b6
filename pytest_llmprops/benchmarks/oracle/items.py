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

A file of Re-DocRED is a list of documents with these keys:

- ``title``
- ``sents``: sentences as lists of tokens
- ``vertexSet``: entities, each a list of mentions with ``name``, ``type``, ``sent_id`` and ``pos`` (the first token,
  and the one after the last)

The text of a mention is the text of its tokens: in a few mentions, ``name`` also has the number of a footnote.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from pytest_llmprops.core.benchmark import DataFiles
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.items import CONTROL_MARK, Item, grouped
from pytest_llmprops.core.protocols import generator

LINEARITY, YES, NO = "linearity", "yes", "no"
#: the sanity checks
CONSISTENCY, OWN, RANDOM = "consistency", "own_paraphrase", "random_pair"
#: the task of rows over all pairs, whatever the answer
PAIRS = "pairs"
#: metric -> which values are better
DIRECTIONS = {
    "acceptance_rate": "higher", "faithful_acceptance_rate": "higher", "entity_acceptance_rate": "higher",
    "a_rate": "higher", "identity_rate": "higher", "label_overlap": "higher", "no_entities_rate": "none",
    "named_share": "none", "spearman": "none",
    "label_agreement": "higher", "yes_rate": "none", "provable_rate": "none", "acceptance_rate_paper": "higher",
    "accepted_precision": "higher", "coverage": "higher", "source_revealed_rate": "lower", "null_coverage": "none",
    "null_precision": "none", "potential_rate": "none", "consistency_rate": "higher",
}  # fmt: skip
LANGUAGE = "en"
DOMAINS = ("general", "technical", "hardware")
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
    for row in files.jsonl(f"oracle/{domain}.jsonl", required=("id", "text", "entities")):
        entities = tuple((entity["name"], entity["kind"]) for entity in row["entities"])
        yield _linearity(f"oracle/{domain}/{row['id']}", row["text"], entities, domain, files.source)


def _builtin_pairs(files: DataFiles) -> Iterator[Item]:
    for row in files.jsonl(PAIRS_FILE, required=("id", "first", "second", "label", "level")):
        name, label = f"oracle/pair/{row['id']}", row["label"] == 1
        yield _pair(name, row["first"], row["second"], label, row["level"], files.source)


def _own_items(files: DataFiles) -> Iterator[Item]:
    for number, text in enumerate(own_sentences(files.text(OWN_FILE), OWN_FILE), start=1):
        yield _linearity(f"oracle/own/{number:04d}", text, (), "own", "generated")


def _pair(name: str, first: str, second: str, label: bool, level: str, source: str) -> Item:
    fields = {"first": first, "second": second, "label": label, "level": level}
    return Item(name, YES if label else NO, LANGUAGE, source, fields=fields)


def _msrp_items(files: DataFiles, paths: Iterable[str]) -> Iterator[Item]:
    for path in paths:
        for number, row in enumerate(files.tsv_literal(path, required=MSRP_COLUMNS), start=1):
            label, one, two, first, second = (row[column].strip() for column in MSRP_COLUMNS)
            if label not in ("0", "1"):
                place = f"{path}: row {number}"
                _fail(place, f"the Quality is {label!r}", "write 1 for equivalent sentences, 0 for others")
            yield _pair(f"oracle/pair/{one}-{two}", first, second, label == "1", "", files.source)


def _fail(place: str, what: str, fix: str) -> NoReturn:
    raise DataError(f"{place}: {what}; {fix}")


Span = tuple[int, int]
#: the text of a sentence, and the span of each token
_Text = tuple[str, list[Span]]

_CLOSING = frozenset(".,;:?!)]}%”’»…‰+")
_OPENING = frozenset("([{“‘«„‚¡¿$£€¥₹")
_JOINERS = frozenset("-–—/")
_CONTRACTION = re.compile(r"(?:['’](?:s|m|re|ve|ll|d|t)|n['’]t)\Z", re.I)


def detokenised(tokens: Sequence[str]) -> tuple[str, list[Span]]:
    """Return the text of a sentence's tokens, and the (start, end) of each token in it. Never raises.

    The corpus has tokens only, split by spaCy's rules, so the spaces are guesses; a wrong one only misplaces a space.
    White space inside a token becomes one space, and a token of only white space becomes a space. Closing marks,
    contractions and possessives belong to the word before them, opening marks and currency signs to the word after
    them. Straight quotation marks open and close alternately. spaCy splits at a hyphen, dash or slash only between two
    letters or two digits, so these are joined there.
    """
    words = [" ".join(token.split()) for token in tokens]
    text, spans = "", list[Span]()
    is_glued, opened = True, {'"': False, "'": False}
    for place, word in enumerate(words):
        before, after = words[place - 1] if place else "", "".join(words[place + 1 : place + 2])
        left = right = False
        if word in opened:
            # Short words in s are "as", "is" and "was".
            is_possessive = word == "'" and not opened[word] and before[-1:] in ("s", "x") and len(before) > 3
            left, right = opened[word] or is_possessive, not (opened[word] or is_possessive)
            opened[word] = right
        elif word in _JOINERS:
            left = right = _is_inside(before, after)
        elif word:
            is_mark = not any(map(str.isalnum, word))
            left = bool(is_mark and word[0] in _CLOSING) or bool(_CONTRACTION.match(word))
            right = word[-1] in _OPENING
        if word and not (is_glued or left):
            text += " "
        spans.append((len(text), len(text) + len(word)))
        text += word
        is_glued = right if word else is_glued and not text
    return text, spans


def _is_inside(before: str, after: str) -> bool:
    """Return True if a hyphen, dash or slash between two tokens is inside a word or number."""
    pair = before[-1:] + after[:1]
    return len(pair) == 2 and (pair.isalpha() or pair.isdigit())


#: type in the corpus -> class in words; any other type is used in lower case
KINDS: Mapping[str, str] = {
    "PER": "person",
    "ORG": "organization",
    "LOC": "location",
    "TIME": "date",
    "NUM": "number",
    "MISC": "other",
}


def _redocred_items(files: DataFiles, letter: str, path: str) -> Iterator[Item]:
    """Yield the sentences of a file in order. Sentences without a visible character are left out.

    The file is checked against the manifest of published data, so this check of its form is a rough one.

    :raises DataError: if the file is not a list of documents. The message has the document's number, from 1.
    """
    documents = files.json(path)
    if type(documents) is not list or not documents:
        _fail(path, "is not a list of documents", "use a file of Re-DocRED")
    for number, document in enumerate(documents, start=1):
        try:
            sentences = [detokenised(tokens) for tokens in document["sents"]]
            names = _names(document["vertexSet"], sentences)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            place = f"{path}: document {number}"
            _fail(place, f"is not one of Re-DocRED ({type(error).__name__}: {error})", "pull the file again")
        cluster = f"oracle/p/{letter}{number:04d}"
        for index, ((text, _), entities) in enumerate(zip(sentences, names, strict=True), start=1):
            if text:
                name = f"{cluster}-{index:02d}"
                yield _linearity(name, text, entities, "published", files.source, cluster)


def _names(
    entities: Sequence[Sequence[Mapping[str, Any]]], sentences: Sequence[_Text]
) -> list[tuple[tuple[str, str], ...]]:
    """Return (name, kind) of the names labelled in each sentence; two names of an entity are two entries."""
    # (start, -end, name, kind): sorting puts the longer of two names with the same start first.
    labelled: list[list[tuple[int, int, str, str]]] = [[] for _ in sentences]
    for mention in (mention for mentions in entities for mention in mentions):
        kind, (first, stop) = mention["type"], mention["pos"]
        text, spans = sentences[mention["sent_id"]]
        # A mention may begin or end with a token of white space, whose span is empty.
        visible = [span for span in spans[first:stop] if span[0] < span[1]]
        if visible:
            start, end = visible[0][0], visible[-1][1]
            row = (start, -end, text[start:end], KINDS.get(kind, kind.lower()))
            labelled[mention["sent_id"]].append(row)
    names: list[dict[str, str]] = [{} for _ in sentences]
    for kinds, mentions in zip(names, labelled, strict=True):
        for _, _, name, kind in sorted(mentions):
            kinds.setdefault(name, kind)
    return [tuple(kinds.items()) for kinds in names]


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
    asked = (item for item in items if item.task in (YES, NO))
    for source, pairs in grouped(asked, lambda item: item.source).items():
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
