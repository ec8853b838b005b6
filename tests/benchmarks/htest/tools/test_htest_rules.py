"""The independent rules of H-TEST, alone and against generated and published items."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.htest_rules import RULE_TASKS, decide, rhyme_part
from pytest_llmprops.benchmarks.htest.tools.generators import TASKS, generate
from pytest_llmprops.benchmarks.htest.tools.matched_words import Lexicon
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.data.pronunciation import load_cmudict

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


# Where the published labels deviate from the rule: six B items of "end ly" end in "early", two names in
# group B are palindromes, ten A items of "uppercase" have no capital.
DISAGREEMENTS = {
    "end_ly": 6, "end_punctuation": 0, "palindrome": 2, "rhyme": 0, "spelled_number": 0, "uppercase": 10,
}  # fmt: skip


@pytest.mark.parametrize("task", TASKS)
def test_rules_agree_with_the_published_labels(
    task: str, lexicon: Lexicon, record_property: Callable[[str, object], None]
) -> None:
    """The rules give the labels of the authors' 250 items per task, except the items counted above."""
    folder = os.environ.get("LLMPROPS_DATA")
    if not folder:
        pytest.skip("LLMPROPS_DATA is not set: no published data")
    files = [Path(folder) / "htest" / f"{task}_{part}.jsonl" for part in ("dev", "test")]
    if not all(file.is_file() for file in files):
        pytest.skip(f"{files[0].parent} has no published files of {task}")
    if json.loads(files[0].read_text("utf-8").splitlines()[0]).get("id"):
        pytest.skip(f"{files[0].parent} holds a generated set, not the published one")
    rows = [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]
    wrong = [
        row["centerpiece"]
        for row in rows
        if decide(task, row["centerpiece"], lexicon) != row["options"][row["correct_options"][0]]
    ]
    record_property("agreement", 1 - len(wrong) / len(rows))
    assert (250, DISAGREEMENTS[task]) == (len(rows), len(wrong)), wrong
