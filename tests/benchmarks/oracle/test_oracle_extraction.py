"""Prompt 1, lenient list parsing, normalised names and repeated samples."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.oracle.extraction import (
    LONGEST_NAME,
    PROMPT,
    contains_words,
    most_frequent,
    normalised,
    read_list,
    samples_of,
)
from pytest_llmprops.core.requests import PLANNED, Reply

TEXT = 'The film "Mission: Impossible" was shot in Wallonia, Belgium with Tom Cruise, says the novel.'


def read(reply: str, text: str = TEXT) -> list[tuple[str, str]] | None:
    """Return names and classes, or None."""
    entities = read_list(reply, text).entities
    return None if entities is None else [(e.name, e.kind) for e in entities]


def test_prompt_matches_the_paper() -> None:
    """Prompt 1 equals the paper's word for word, including its example list and quotation marks."""
    assert PROMPT.replace("{text}", "TEXT").splitlines() == [
        'Please perform entity recognition for all entities in the following sentence: "TEXT"', "",
        "Present the result as a strictly formatted numbered list e.g.", "", '"1. movie: Wizard of Oz',
        '2. animal: tiger"',
    ]  # fmt: skip


def test_equivalent_lists() -> None:
    """Numbers, bullets, bold, quotes, preambles, classes and repeats all give the same two entities."""
    for reply in (
        "(1) movie: Mission: Impossible\n(2) person: Tom Cruise",
        "“1. Movie: Mission: Impossible\n2. Person: Tom Cruise”",
        "* **Movie:** Mission: Impossible\n* **Person:** Tom Cruise",
        '1. movie: "Mission: Impossible"\n2. person: "Tom Cruise".',
        "Here are the entities:\n\n1. movie: Mission: Impossible\n\n2. person: Tom Cruise\n\nLet me know!",
        "1. movie: Mission: Impossible\n2. person: Tom Cruise\n3. movie: mission: impossible\n4. actor: Tom Cruise",
        "1. Mission: Impossible - movie\n2. Tom Cruise – person",
        "1. movie: Mission: Impossible (a film)\n2. person: Tom Cruise - an actor\n   - famous",
        "movie: Mission: Impossible\nperson: Tom Cruise",
    ):
        assert read(reply) == [("Mission: Impossible", "movie"), ("Tom Cruise", "person")], reply


# "flag" is a class and a word of the sentence.
FLAG = "The CARRY flag of Mona-4, a chip from Oslo, Norway, costs 2.5 euros since 1964."


def test_shapes_of_a_list() -> None:
    """JSON, tables, one line, one name per line and repeated prompts give the same entities."""
    for reply in (
        '{"entities": {"cities": [{"name": "Oslo"}], "years": [1964]}}', '["city: Oslo", "year: 1964"]',
        '{"city": "Oslo"}\n{"year": 1964}',
        f'{{"sentence": "{FLAG}", "entities": ["Oslo", "1964"], "person": null, "note": ""}}',
        "| No. | Entity | Class |\n|---|:--|--:|\n| 1 | Oslo | city |\n| 2 | 1964 | year |\n\nThat is all.",
        "Oslo and 1964.", "Oslo; 1964", "Oslo\n1964", "<ol><li>Oslo</li><li>1964</li></ol>",
        'I found these entities: "Oslo" (a city) and "1964" (a year).',
        f"1. city: Oslo\n2. year: 1964\n\n{PROMPT}\n\n1. city: Rome",
        "1. movie: Wizard of Oz\n2. animal: tiger\n3. city: Oslo\n4. year: 1964",
        "1. city: Oslo\n2. year: 1964\n3. The other words of this long sentence are no names of anything at all",
    ):  # fmt: skip
        assert read_list(reply, FLAG).names == frozenset({"oslo", "1964"}), reply


def test_names_of_a_line() -> None:
    """Only a class in the plural has several names; commas and hyphens part class and name in whole lists."""
    names = {
        "2.5 euros\nOslo": ["2.5 euros", "Oslo"], "1. city: Bergen (Norway)": ["Bergen"], "1. Oslo - Bergen": ["Oslo"],
        "flag, chip and Oslo": ["flag", "chip", "Oslo"], "city: Bergen\ncountry: Denmark": ["Bergen", "Denmark"],
        "1. a very large city: Bergen": ["Bergen"],
        "1. a very large old city: Bergen": ["a very large old city: Bergen"],
        "1. CARRY: flag": ["CARRY"], "1. Oslo: City\n2. Part: flag": ["Oslo", "flag"], "1. flag: CARRY": ["CARRY"],
        "1. b c d e f g h i j k": ["b c d e f g h i j k"], '{"chip": "part", "Oslo": "data"}': ["chip", "Oslo"],
    }  # fmt: skip
    assert {reply: [name for name, _ in read(reply, FLAG) or []] for reply in names} == names


def test_sentence_decides_which_part_is_the_name() -> None:
    """The sentence decides which half of a line is the name, and whether it is one name or several."""
    names = {
        "1. Tom Cruise: Person\n2. Belgium: Country": ["Tom Cruise", "Belgium"],
        "1. location: Wallonia, Belgium": ["Wallonia, Belgium"],
        "1. locations: Belgium, Wallonia": ["Belgium", "Wallonia"],
        "1. locations: Belgium and Wallonia; 2. person: Tom Cruise": ["Belgium", "Wallonia", "Tom Cruise"],
        "1. person: Tom Cruise\n- not this": ["Tom Cruise"],
        f"1. person: Tom Cruise\n2. thing: {'x' * (LONGEST_NAME + 1)}": ["Tom Cruise"],
    }
    assert {reply: [name for name, _ in read(reply) or []] for reply in names} == names


def test_no_entities_is_an_answer() -> None:
    """A reply that says there are no entities is the empty set."""
    for reply in (
        "1. None",
        "There are no entities in this sentence.",
        "[]",
        '{"entities": [], "note": "As asked."}',
    ):
        assert read(reply) == []


def test_reply_that_is_not_a_list_is_unread() -> None:
    """A reply that is not a list is unread with a stated problem, which differs from the empty set."""
    for reply, problem in (
        (" \n ", "empty"),
        ("I'm sorry, but I can't identify entities here.", "not a list"),
        ("The sentence is about Tom Cruise.", "not a list"),
        (TEXT, "not a list"),
        ("with Tom Cruise, says the novel", "not a list"),
        ("Tom Cruise likes Rome, Paris and Oslo", "not a list"),
        ("1. b c d e f g h i j k l", "no names"),
        (f"1. {'x' * 500}", "no names"),
        (PROMPT.format(text=TEXT), "repeats the prompt"),
        ("2. animal: tiger", "repeats the prompt"),
    ):
        reading = read_list(reply, TEXT)
        assert (reading.entities, reading.names) == (None, None)
        assert problem in reading.problem


def test_normalised_names() -> None:
    """Names ignore case, quotes, possessives, leading articles, outer punctuation and Unicode form.

    Longer and shorter forms are different names, and a name that is only an article is kept.
    """
    names = {
        "The Hague": "hague", "“Tom  Cruise's”": "tom cruise", "an actor.": "actor", "Jean–Luc": "jean-luc",
        "cafe\u0301": "café", "**Belgium**,": "belgium", "soft\u00adware": "software", "x16": "x16", "The": "the",
        "general-purpose registers": "general-purpose registers", "Mohammed’s family": "mohammed's family",
    }  # fmt: skip
    assert {name: normalised(name) for name in names} == names


@given(st.text(max_size=40))
@settings(max_examples=40)
def test_normalising_is_idempotent(name: str) -> None:
    """Normalising a name twice gives the same result as once."""
    assert normalised(normalised(name)) == normalised(name)


def test_words_are_whole() -> None:
    """A part matches if no letter or digit adjoins it, and an empty part never matches."""
    parts = {("new york city", "york"): True, ("x (ab)", "ab"): True, ("abc ab", "ab"): True,
             ("new yorker", "york"): False, ("anything", ""): False}  # fmt: skip
    assert {(text, part): contains_words(text, part) for text, part in parts} == parts


def test_most_frequent_set() -> None:
    """The most frequent set wins, the first seen wins a tie, and no sets give none."""
    a, b = frozenset("a"), frozenset("ab")
    assert most_frequent([b, a, a, b]) == (b, 2)
    assert most_frequent([b, a, a]) == (a, 2)
    assert most_frequent([]) == (frozenset(), 0)


def test_samples() -> None:
    """Cut-off and filtered replies are unread, and a set keeps the spelling of its first reply."""
    replies = [
        Reply("1. person: Tom Cruise\n2. a: b", finish_reason="length"),
        Reply("1. Person: TOM CRUISE"),
        Reply("", finish_reason="content_filter"),
        Reply("1. actor: Tom Cruise"),
    ]
    samples = samples_of(TEXT, replies)
    assert (samples.unread, samples.refused, samples.planned) == (2, 1, False)
    assert samples.sets == [frozenset({"tom cruise"})] * 2
    assert samples.first_with(samples.sets[0])[0].name == "TOM CRUISE"
    assert samples_of(TEXT, [Reply(key=PLANNED)]).planned
