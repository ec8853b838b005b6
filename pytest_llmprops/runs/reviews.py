"""Review marks of people on the verdicts of a run: ``review.jsonl`` beside the run's record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pytest_llmprops.core.records import VerdictKey
from pytest_llmprops.runs.json_lines import JsonLines

FILE = "review.jsonl"
_TEXTS = ("run", "model", "benchmark", "source", "id", "note", "time")


@dataclass(frozen=True, slots=True)
class Review:
    """One line of ``review.jsonl``: what a person says about one verdict.

    :param run: the id of the run; the file may have lines on other runs.
    :param judged_wrongly: the verdict is wrong, in this person's opinion. No number of a report depends on it.
    :param time: when the mark was made, ISO 8601 in UTC.
    """

    run: str
    model: str
    benchmark: str
    source: str
    id: str
    sample: int = 0
    judged_wrongly: bool = False
    note: str = ""
    time: str = ""

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> Review:
        """Read a line.

        :raises ValueError: with the first field that is missing or has the wrong type.
        """
        for name in ("run", "model", "benchmark", "source", "id"):
            if name not in line:
                raise ValueError(f"has no '{name}'")
        for name in _TEXTS:
            if not isinstance(line.get(name, ""), str):
                raise ValueError(f"has a '{name}' that is not a string")
        sample, wrongly = line.get("sample", 0), line.get("judged_wrongly", False)
        if type(sample) is not int or sample < 0:
            raise ValueError("has a 'sample' that is not a whole number of at least 0")
        if not isinstance(wrongly, bool):
            raise ValueError("has a 'judged_wrongly' that is not true or false")
        texts = {name: line.get(name, "") for name in _TEXTS}
        return cls(**texts, sample=sample, judged_wrongly=wrongly)

    def to_json(self) -> dict[str, Any]:
        """Return the line as plain JSON."""
        return asdict(self)

    @property
    def key(self) -> VerdictKey:
        """The verdict that the mark is on. Its last mark counts."""
        return VerdictKey(self.model, self.benchmark, self.source, self.id, self.sample)


def read_reviews(folder: Path, run_id: str) -> dict[VerdictKey, Review]:
    """Return the marks on a run by verdict; empty without ``review.jsonl``.

    Lines on other runs are ignored, and so is a truncated last line. A mark without opinion and note deletes an
    earlier one.

    :raises DataError: for a damaged line that is not the last.
    """
    latest = {
        review.key: review for review in JsonLines(folder / FILE, Review.from_json) if review.run == run_id
    }
    return {key: review for key, review in latest.items() if review.judged_wrongly or review.note}
