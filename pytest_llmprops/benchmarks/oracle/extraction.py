"""Entity extraction: prompt 1 (appendix A.1), the list in its reply, repeated samples, and entities in their sentence.

Two extracted entities are the same if their normalised names are equal (:func:`normalised`). The class is ignored: a
model may call Paris a city in one reply and a location in another.

Only an entity that occurs literally in the sentence can be replaced, so only those are in the vectors. If mentions
overlap, the longer entity gets the span. An entity whose mentions are all inside longer ones is *contained*
("Mohammed" next to "Mohammed's family"): replacing it would also change the longer one, so it is left out, too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from pytest_llmprops.benchmarks.oracle.scheme import Oracle, fill
from pytest_llmprops.core.reading import listed
from pytest_llmprops.core.requests import PLANNED, Reply
from pytest_llmprops.core.texts import folded

#: prompt 1, word for word
PROMPT = """Please perform entity recognition for all entities in the following sentence: "{text}"

Present the result as a strictly formatted numbered list e.g.

"1. movie: Wizard of Oz
2. animal: tiger\""""
#: the same question with a form that servers can enforce
JSON_PROMPT = """Please perform entity recognition for all entities in the following sentence: "{text}"

Output one JSON object with the key "entities": a list of objects with the keys "class" and "name". Copy each name \
from the sentence."""

#: maximum characters of a reply that are read; a list of a sentence's entities is far shorter
LONGEST_READ = 20_000
#: maximum length of an entity's name, in characters, and items of a list that are read
LONGEST_NAME, _MOST_ITEMS = 200, 200
#: words of a line that names neither an entity of the sentence nor a class; a longer one is a remark
_LONGEST_UNKNOWN = 10
#: characters of a list without marks
_LONGEST_UNMARKED = 2_000
#: words of a class
_LONGEST_CLASS = 4

Names = frozenset[str]

_ARTICLE = re.compile(r"\A(?:the|an?) (?=\S)")
_QUOTE_MARKS = str.maketrans(
    {**dict.fromkeys("‘’‚‛`´ʼ", "'"), **dict.fromkeys("“”„‟«»", '"'), **dict.fromkeys("‐‑‒–—", "-")}
)
_EDGES = " \t\n'\"*_.,;:!?()[]{}<>|（）"
_SEPARATOR = re.compile(
    r"\s?[:：;|]\s?|\s*(?:=>|->|→|⇒|=)\s*|\s+[-–—]+\s+|\s*[–—]\s*|\s+/\s+|,\s+|\s+(?:is|was) (?:an?|the)\s+|\s*[(\[（]"
)
_SEVERAL = re.compile(r"\s*(?:(?<!\d),|,(?!\d)|[;、，；])\s*(?:and\s+)?|\s+and\s+")
_REMARK = re.compile(r"(?<=\S)\s*(?:[(\[（]|\s[-–—]\s)")
_BRACKETS = ("(", "[", "（")
_CLASS = re.compile(r"[^\W\d][\w /&-]{0,40}[:：]\s")
_OBJECTS = re.compile(r"\}\s*,?\s*\n\s*\{")
_PLURAL = re.compile(r".*[a-rt-z]s|people|persons")
#: a line of the example of prompt 1, or of a template; what a model repeats of it is no answer
_EXAMPLE = re.compile(
    r"^\W*(?:\d\W*)?(?:movie: Wizard of Oz|animal: tiger|class: (?:entity|name))\W*$", re.I | re.M
)


@dataclass(frozen=True, slots=True)
class Extracted:
    """One item of a list: the entity's name as the model writes it, and its class in lower case, or ""."""

    name: str
    kind: str = ""


@dataclass(frozen=True)
class ListReading:
    """A reply read as a list: ``entities`` (empty if the reply says there are none), or None and the ``problem``."""

    entities: tuple[Extracted, ...] | None
    problem: str = ""

    @cached_property
    def names(self) -> Names | None:
        """The answer set: the normalised names; None if the reply cannot be read."""
        return None if self.entities is None else frozenset(normalised(e.name) for e in self.entities)


@lru_cache(maxsize=4096)
def normalised(name: str) -> str:
    """Return the form in which names are compared.

    - Unicode NFKC, folded case, no invisible characters, one space between words (``core.texts.folded``)
    - one kind of apostrophe, quotation mark and hyphen
    - no quotes, brackets, emphasis and punctuation at the ends, and no possessive ``'s``
    - no leading articles, as long as a word remains
    """
    text = folded(name).translate(_QUOTE_MARKS)
    while True:
        shorter = _ARTICLE.sub("", text.strip(_EDGES).removesuffix("'s"))
        if shorter == text:
            return text
        text = shorter


def contains_words(text: str, part: str) -> bool:
    """Return True if ``text`` contains ``part`` as whole words, literally; "" is never contained."""
    start = text.find(part) if part else -1
    while start >= 0:
        stop = start + len(part)
        if not (_joins(text, start - 1, start) or _joins(text, stop - 1, stop)):
            return True
        start = text.find(part, start + 1)
    return False


def _joins(text: str, left: int, right: int) -> bool:
    return left >= 0 and right < len(text) and text[left].isalnum() and text[right].isalnum()


@lru_cache(maxsize=512)
def read_list(reply: str, text: str = "") -> ListReading:
    """Read a reply to prompt 1 as entities: the list in it, whose items may have a class before or after the name.

    Of an item's parts, the name is the longest one that is in ``text``. If none is, the class is before the colon. Each
    name is kept once. A repeated example is unread.

    :param text: the sentence of the prompt; without it, only the form of the items counts.
    """
    normal = normalised(text)
    reply = reply[:LONGEST_READ]
    rest = reply if "tiger" in normal else _EXAMPLE.sub("", reply)
    if rest.lstrip().startswith("{"):
        # One object per line.
        rest = f"[{_OBJECTS.sub('}, {', rest)}]"
    items = listed(rest)
    if items is None:
        items = _unmarked(rest, normal)
    if items is None:
        is_example = rest != reply
        why = "repeats the prompt" if is_example else "is not a list" if reply.strip() else "is empty"
        return ListReading(None, f"the reply {why}")
    entities: dict[str, Extracted] = {}
    for item in items[:_MOST_ITEMS]:
        name, kind = _split(" ".join(item.split()), normal)
        for one in _names(name, kind, normal):
            key = normalised(one)
            is_short = kind or contains_words(normal, key) or not text or len(one.split()) <= _LONGEST_UNKNOWN
            if key and len(one) <= LONGEST_NAME and is_short:
                entities.setdefault(key, Extracted(one, kind.lower().strip(". ")))
    if items and not entities:
        return ListReading(None, "the list has no names")
    return ListReading(tuple(entities.values()))


def _unmarked(reply: str, normal: str) -> list[str] | None:
    """Return the names of "Oslo, 1964", or of one name per line, if all are in the sentence; not a part of it."""
    if len(reply) > _LONGEST_UNMARKED or contains_words(normal, normalised(reply)):
        return None
    parts = [part for line in reply.splitlines() for part in _SEVERAL.split(line) if part.strip(_EDGES)]
    return parts if _are_all_in(normal, parts) else None


def _are_all_in(normal: str, parts: Sequence[str]) -> bool:
    return len(parts) > 1 and all(contains_words(normal, normalised(part)) for part in parts)


def _split(item: str, normal: str) -> tuple[str, str]:
    """Return the name and the class of an item; the class is "" if the item has none."""
    best, result = 0, (item, "")
    for match in _SEPARATOR.finditer(item[:LONGEST_NAME]):
        left, right = _clean(item[: match.start()]), _clean(item[match.end() :].rstrip(")]）"))
        if not (left and right) or (match[0].strip() in _BRACKETS and _CLASS.match(item)):
            # A remark after class and name.
            continue
        known = [_known(normal, left), _known(normal, right)]
        if all(known) and left.islower() != right.islower():
            # "novel: Twilight", for a sentence about a novel: the class is in lower case.
            known[right.islower()] = 0
        if max(known) > best:
            best, result = max(known), (left, right) if known[0] > known[1] else (right, left)
        elif not result[1] and match[0].strip() in ":：" and len(left.split()) <= _LONGEST_CLASS:
            result = right, left
    return result


def _known(normal: str, name: str) -> int:
    """Return the length of a name, or of what is before a remark, that is in the sentence; 0 if neither is."""
    remark = _REMARK.search(name)
    for part in (name, name[: remark.start()] if remark else ""):
        key = normalised(part)
        parts = [p for p in _SEVERAL.split(part) if p.strip(_EDGES)]
        # The sentence itself is no name.
        if key != normal and (contains_words(normal, key) or _are_all_in(normal, parts)):
            return len(part)
    return 0


def _names(name: str, kind: str, normal: str) -> Iterator[str]:
    """Yield the name, or the names of a list: "cities: Huy, Ghent", or names that are only together not in the text."""
    name = _clean(name)
    is_whole = contains_words(normal, normalised(name))
    parts = [_clean(part) for part in _SEVERAL.split(name) if part.strip(_EDGES)]
    is_plural = _PLURAL.fullmatch(kind) is not None and all(part[:1].isupper() for part in parts)
    if _are_all_in(normal, parts) and (is_plural or not is_whole):
        yield from parts
    elif not is_whole and (remark := _REMARK.search(name)):
        # "Tom Cruise (actor)"
        yield _clean(name[: remark.start()])
    else:
        yield name


def _clean(name: str) -> str:
    """Return a name without quotes, emphasis and punctuation around it; brackets and full stops of its own stay."""
    name = re.sub(r"(?<=[\"”»'’])[.,;]\Z", "", name.strip()).strip(' \t*_`"“”„«»')
    return " ".join(name.rstrip(",;:!").split())


@dataclass(frozen=True)
class Samples:
    """The sampled replies about one sentence, read as lists, in order.

    :param refused: number of replies that a content filter withheld; also counted as unread.
    :param planned: whether they are the empty replies of a plan.
    """

    text: str
    readings: tuple[ListReading, ...]
    refused: int = 0
    planned: bool = False

    @cached_property
    def sets(self) -> list[Names]:
        """The answer sets of the replies that could be read, in order."""
        return [names for reading in self.readings if (names := reading.names) is not None]

    @property
    def unread(self) -> int:
        """Number of replies that are not a list, cut off or refused."""
        return sum(reading.entities is None for reading in self.readings)

    @property
    def read_by(self) -> str:
        """How the first reply with the most frequent set was read, or why no reply can be read."""
        return "list" if self.sets else self.readings[0].problem.partition(":")[0]

    def first_with(self, names: Names) -> tuple[Extracted, ...]:
        """Return the entities of the first reply with the answer set ``names``, as that reply writes them."""
        return next(reading.entities or () for reading in self.readings if reading.names == names)


def samples_of(text: str, replies: Iterable[Reply]) -> Samples:
    """Read the replies to prompt 1 about ``text``. A reply that was cut off is unread: its end is unknown."""
    readings = []
    refused = 0
    planned = False
    for reply in replies:
        planned = planned or reply.key == PLANNED
        if reply.finish_reason == "content_filter":
            refused += 1
            readings.append(ListReading(None, "a content filter refused"))
        elif reply.finish_reason == "length":
            readings.append(ListReading(None, "the reply is cut off"))
        elif len(reply.text) > LONGEST_READ:
            readings.append(ListReading(None, f"the reply has more than {LONGEST_READ:,} characters"))
        else:
            readings.append(read_list(reply.text, text))
    return Samples(text, tuple(readings), refused, planned)


async def extract(text: str, oracle: Oracle, samples: int, *, first: int = 0) -> Samples:
    """Extract the entities of one sentence, ``samples`` times at once.

    :param first: number of the first sample. Other numbers are new replies to the same question.
    :raises BackendError: if a call could not be made.
    """
    numbers = range(first, first + samples)
    prompt = fill(JSON_PROMPT if oracle.json else PROMPT, text=text)
    return samples_of(text, await oracle.samples(prompt, numbers))


def most_frequent(sets: Sequence[Names]) -> tuple[Names, int]:
    """Return the most frequent set and its count; the first of equally frequent ones; ``(frozenset(), 0)`` for none."""
    counts = Counter(sets)
    # Counter keeps the order of first appearance, and max returns the first of equals.
    return max(counts.items(), key=lambda item: item[1], default=(frozenset(), 0))


#: maximum entities of a sentence that are tested, the first ones: {0,1}^12 has 4,096 vectors
MOST_ENTITIES = 12

_APOSTROPHE = "['’‘ʼ]"
_DASH = "[-‐‑‒–—]"
_LEADING = re.compile(r"\A(?:the|an?)\s+(?=\S)", re.I)
_POSSESSIVE = re.compile(rf"{_APOSTROPHE}s\Z", re.I)

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Entity:
    """One entity of the answer.

    :param name: the text of its first mention in the sentence, without article and possessive ``'s``; the model's
        text if the sentence does not contain it.
    :param kind: the model's class for it, lower case, or "".
    :param named: whether it is a named entity (appendix A.2); None if not decided yet.
    :param spans: its own mentions, as (start, end) in characters of the sentence, in order.
    :param inside: the normalised name of the longer entity that contains all its mentions; "" if it has its own.
    """

    name: str
    kind: str = ""
    named: bool | None = None
    spans: tuple[Span, ...] = ()
    inside: str = ""

    @property
    def key(self) -> str:
        """The normalised name, by which entities are compared."""
        return normalised(self.name)


def locate(extracted: Sequence[Extracted], sentence: str) -> tuple[Entity, ...]:
    """Return the entities with their mentions, in the order of the first mention. Entities without mentions are last.

    A mention is the name as whole words, with any kind of apostrophe, dash and white space. Mentions have the case of
    the name; if there are none, any case. The first letter of the sentence may have the other case. If the only
    mention with the name's case is there, mentions with the other case count too: "Dogs bark at dogs". Longer names
    get their mentions first.
    """
    taken: list[tuple[Span, str]] = []
    entities: list[Entity] = []
    for item in sorted(extracted, key=lambda e: (-len(_core(e.name)), e.name)):
        core = _core(item.name)
        mentions = _mentions(core, sentence)
        if item.name.rstrip(" '\"”’").endswith("."):
            mentions = [_with_full_stop(span, sentence) for span in mentions]
        free = [span for span in mentions if not any(_overlap(span, other) for other, _ in taken)]
        name = sentence[slice(*free[0])] if free else core if mentions else item.name
        entity = Entity(name, item.kind, spans=tuple(free))
        if mentions and not free:
            entity = replace(entity, inside=next(key for span, key in taken if _overlap(mentions[0], span)))
        taken += [(span, entity.key) for span in free]
        entities.append(entity)
    order = {normalised(item.name): place for place, item in enumerate(extracted)}
    end = len(sentence)
    return tuple(
        sorted(entities, key=lambda e: (e.spans[0][0] if e.spans else end, order.get(e.key, 0), e.key))
    )


def _core(name: str) -> str:
    """Return the part of a name that is replaced: without leading article, possessive and surrounding marks."""
    core = name.strip(" \t\n'\"“”‘’*_.,;:!?()[]{}")
    return _LEADING.sub("", _POSSESSIVE.sub("", core))


def _mentions(core: str, sentence: str) -> list[Span]:
    if not core:
        return []
    pattern = r"\s+".join(map(re.escape, core.split()))
    pattern = re.sub("['’‘ʼ]", lambda _: _APOSTROPHE, pattern)
    pattern = re.sub(r"(?:\\)?[-‐‑‒–—]", lambda _: _DASH, pattern)
    # Only a letter or digit at the end of the name needs a word boundary: "U.S." and "C++" do not end in one.
    left = r"(?<!\w)" if core[0].isalnum() else ""
    right = r"(?!\w)" if core[-1].isalnum() else ""
    for flags in (0, re.IGNORECASE):
        spans = [match.span() for match in re.finditer(left + pattern + right, sentence, flags)]
        if spans:
            break
    else:
        return []
    begin = beginning(sentence)
    starts = [span for span in spans if span[0] == begin]
    if core[0].swapcase() == core[0] or (starts and len(spans) > 1):
        return spans
    other = re.escape(core[0].swapcase()) + pattern[len(re.escape(core[0])) :]
    more = [match.span() for match in re.finditer(left + other + right, sentence)]
    # Otherwise "mode" and "MODE", or "apple" and "Apple", are different names.
    return sorted({*spans, *(span for span in more if starts or span[0] == begin)})


def _with_full_stop(span: Span, sentence: str) -> Span:
    """Include the full stop of an abbreviation ("Acme Inc. said"), unless it may end the sentence."""
    start, stop = span
    has_stop = sentence[stop : stop + 1] == "." and sentence[stop + 1 :].strip(" \"'”’)")
    return (start, stop + 1) if has_stop else span


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


_INDEFINITE = re.compile(r"(?<!\w)(a)n?(\s+[\"'“‘(]*)\Z", re.I)
_ARTICLE_BEFORE = re.compile(r"(?<!\w)(?:the|an?)\s+[\"'“‘(]*\Z", re.I)
_THE = re.compile(r"\Athe\s+(?=\S)", re.I)
#: a word that takes "an", by its first letter and common exceptions
_VOWEL = re.compile(
    r"(?!uni(?![dmn])|us[aeu]|eu|ewe|one\b)[aeiouáéíóúäöü]|hour|hono|hones|heir|8|1[18]\b", re.I
)


def replaced(sentence: str, entities: Sequence[Entity], synonyms: Sequence[str], x: int) -> str:
    """Return R(x) (section 3.1): every mention of entity i is replaced by its synonym if bit i of ``x`` is 1.

    A synonym at the start of the sentence keeps the capital. An indefinite article before a synonym becomes "a" or "an"
    by its sound. A "the" in the synonym is dropped after an article. ``replaced(..., 0)`` is the sentence itself.

    :param entities: with spans that do not overlap.
    :param synonyms: one per entity.
    """
    parts: list[str] = []
    done = 0
    begins = beginning(sentence)
    for (start, end), place in sorted(
        (span, i) for i, entity in enumerate(entities) for span in entity.spans
    ):
        if not x >> place & 1:
            continue
        text, before = synonyms[place], sentence[done:start]
        if _ARTICLE_BEFORE.search(before):
            text = _THE.sub("", text)
        article = r"\1n\2" if _VOWEL.match(text) else r"\1\2"
        if start == begins and sentence[start].isupper():
            text = text[:1].upper() + text[1:]
        parts += [_INDEFINITE.sub(article, before), text]
        done = end
    return "".join([*parts, sentence[done:]])


def beginning(sentence: str) -> int:
    """Return the place of the first letter or digit."""
    return next((place for place, letter in enumerate(sentence) if letter.isalnum()), 0)


_WORD = re.compile(r"[^\W_](?:[\w'’.+#/:-]*[\w+#])?")
#: what may be before a word that begins a sentence or a quotation
_BEGINS = re.compile(r"(?:\A|[.!?:;…][\"'“”‘’)\]]*\s|[\"“‘(\[]|(?:\A|\s)['–—-])\s*\Z")
#: a digit, an underscore, a capital after a small letter, or two capitals in a row
_IDENTIFIER = re.compile(r"\d|\w_\w|[a-z][A-Z]|[A-Z]{2}|\w::\w")
_PRONOUN = re.compile(r"I(?:['’]\w+)?\Z")


def written_names(sentence: str) -> tuple[str, ...]:
    """Return the words that are names by how they are written, in order, each once.

    These are words with a capital where no sentence begins, numbers in digits, and technical identifiers such as
    ``MAX_SIZE`` or ``readAll``. In a heading, whose words all have capitals, these tell nothing.
    """
    words = [match for match in _WORD.finditer(sentence) if any(map(str.isalnum, match[0]))]
    # A heading writes short words small.
    is_heading = all(len(match[0]) < 4 or not match[0][0].islower() for match in words)
    names = []
    for match in words:
        word = match[0]
        if is_heading:
            is_name = any(map(str.isdigit, word))
        else:
            begins = _BEGINS.search(sentence, 0, match.start())
            is_name = bool(_IDENTIFIER.search(word)) or (word[0].isupper() and not begins)
        if is_name and not _PRONOUN.match(word):
            names.append(word)
    return tuple(dict.fromkeys(names))
