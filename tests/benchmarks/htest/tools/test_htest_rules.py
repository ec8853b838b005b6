"""The independent rules of H-TEST, alone and against generated and published items."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.htest.benchmark import LABELS, read_rows
from pytest_llmprops.benchmarks.htest.tools.generators import TASKS, Lexicon, generate
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.data.files import DataFolder
from pytest_llmprops.data.pronunciation import load_cmudict
from tests.support.htest_rules import RULE_TASKS, decide, rhyme_part

CASES = [
    ("end_ly", "Goat runs there quickly.", "Goat runs quickly there."),
    ("end_ly", "an only child, sadly", "a lyre"),
    ("end_ly", "Butterfly", "butterflies"),
    ("end_punctuation", "Goat at sea Moth...", "Goat... at sea Moth"),
    ("end_punctuation", "Moth! ", "(Moth) flies"),
    ("hyphenated_word", "a well-read goat", "a well read goat"),
    ("hyphenated_word", "mother-in-law", "mother - in - law"),
    ("hyphenated_word", "re-do 3", "from 3-4 pm"),
    ("palindrome", "Racecar", "racecars"),
    ("palindrome", "noon", "neon"),
    ("repeated_word", "the goat Goat runs.", "goat the goat runs."),
    ("repeated_word", "runs night. night.", "night nights"),
    ("spelled_math", "The mean plus 4 here.", "The mean + 4 here."),
    ("spelled_math", "The mean divided by 4.", "The mean / 4."),
    ("spelled_math", "The mean exceeds 4.", "The mean plus = 4."),
    ("spelled_number", "Goat eats nineteen hats.", "Goat eats 19 hats."),
    ("spelled_number", "Twenty goats", "Weight of often tended goats"),
    ("start_vowel", "Otter sees moth.", "Moth sees otter."),
    ("start_vowel", '"Elk', "yak"),
    ("uppercase", "goat rUns.", "goat runs."),
    ("rhyme", "weight plate", "weight plane"),
    ("rhyme", "money Sunny", "sunny sunny"),
    ("rhyme", "tear hair", "cough though"),
    ("rhyme", "blue shoe", "blue zzxq"),
]


@pytest.mark.parametrize(("task", "in_a", "in_b"), CASES)
def test_rules_decide_known_cases(task: str, in_a: str, in_b: str, lexicon: Lexicon) -> None:
    """Each rule puts one text in group A and a similar one in group B."""
    assert (decide(task, in_a, lexicon), decide(task, in_b, lexicon)) == ("A", "B")


def test_rhyme_starts_at_the_last_stressed_vowel() -> None:
    """The rhyming part runs from the last stressed vowel to the end, without stress digits."""
    assert rhyme_part(("K", "AH0", "M", "P", "EH1", "R")) == ("EH", "R")
    assert rhyme_part(("M", "AH1", "N", "IY0")) == ("AH", "N", "IY")
    assert rhyme_part(("DH", "AH0")) == ("AH",)


@pytest.mark.parametrize("task", ["rhyme", "reverse"])
def test_rule_that_cannot_be_applied_says_why(task: str) -> None:
    """An unknown task, or rhyme without a dictionary, is a one-line error that names the task."""
    with pytest.raises(UsageError, match=task) as error:
        decide(task, "blue shoe")
    assert "\n" not in str(error.value)


def test_rules_and_generators_cover_the_same_tasks() -> None:
    """Every generated task has a rule."""
    assert RULE_TASKS == TASKS


@pytest.mark.simulation
@pytest.mark.parametrize("task", TASKS)
def test_every_generated_item_obeys_its_label(task: str) -> None:
    """For every seed, the independent rule gives each item its label."""

    @settings(max_examples=15, deadline=None, derandomize=True, database=None)
    @given(seed=st.integers(0, 2**64), half=st.integers(1, 60))
    def check(seed: int, half: int) -> None:
        rows = generate(task, n=2 * half, seed=seed, lexicon=load_cmudict())
        decided = [decide(task, row["centerpiece"], load_cmudict()) for row in rows]
        assert decided == [row["options"][row["correct_options"][0]] for row in rows]

    check()


def documented_labels() -> dict[str, set[int]]:
    """Return the lines that docs/htest.md lists, by file."""
    text = (Path(__file__).parents[4] / "docs" / "htest.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+\.jsonl)` \| [AB] \| ([\d, ]+) \|", text, re.MULTILINE)
    return {file: {int(line) for line in lines.split(",")} for file, lines in rows}


#: published files whose labels were checked; the others were not available
CHECKED = ("end_ly", "end_punctuation", "palindrome", "rhyme", "spelled_number", "uppercase")


@pytest.mark.parametrize("part", ["dev", "test"])
@pytest.mark.parametrize("task", CHECKED)
def test_published_labels_that_contradict_the_rule_are_documented(
    task: str, part: str, lexicon: Lexicon, published: Path
) -> None:
    """The rules give the labels of the authors' items, except in the lines that docs/htest.md lists."""
    file = published / "htest" / f"{task}_{part}.jsonl"
    if not file.is_file():
        pytest.skip(f"{file.name} is not in the folder")
    rows = read_rows(DataFolder(published, "published"), f"htest/{file.name}", options=2)
    wrong = {n for n, row in enumerate(rows, 1) if decide(task, row.text, lexicon) != LABELS[row.answer]}
    assert documented_labels().get(file.name, set()) == wrong


def test_documented_labels_are_those_of_checked_files() -> None:
    """The documentation lists 10 labels of uppercase, 5 and 1 of end_ly, and 2 of palindrome."""
    counts = {file: len(lines) for file, lines in documented_labels().items()}
    assert counts == {
        "uppercase_test.jsonl": 10, "end_ly_test.jsonl": 5, "end_ly_dev.jsonl": 1, "palindrome_test.jsonl": 2,
    }  # fmt: skip
