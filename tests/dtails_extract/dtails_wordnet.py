"""A tiny WordNet, in the format of its dictionary files."""

from __future__ import annotations

from pathlib import Path

#: (words, pointers to other lines of this list, gloss)
NOUNS = [
    (["airplane", "aeroplane", "plane"], [("@", 2)], 'an aircraft with wings; "the flight was delayed"'),
    (["plane", "sheet"], [], "an unbounded two-dimensional shape; a straight line joins two of its points"),
    (["craft", "vehicle"], [("~", 0)], "goes from place to place with passengers"),
    (["house"], [], "a dwelling"),
]


def wordnet(folder: Path) -> Path:
    """A folder in the format of WordNet's dictionary files, with the nouns above and nothing else."""
    licence = "  1 This is a licence.\n"
    sizes = [len(_line(0, *noun, [0] * len(NOUNS))) for noun in NOUNS]
    offsets = [len(licence) + sum(sizes[:number]) for number in range(len(NOUNS))]
    data = [_line(offset, *noun, offsets) for offset, noun in zip(offsets, NOUNS, strict=True)]
    (folder / "data.noun").write_text(licence + "".join(data), encoding="ascii")
    lemmas: dict[str, list[int]] = {}
    for offset, (words, _, _) in zip(offsets, NOUNS, strict=True):
        for word in words:
            lemmas.setdefault(word, []).append(offset)
    lines = (
        f"{word} n {len(places)} 1 @ {len(places)} 0 {' '.join(f'{place:08}' for place in places)}  \n"
        for word, places in sorted(lemmas.items())
    )
    (folder / "index.noun").write_text(licence + "".join(lines), encoding="ascii")
    for part in ("verb", "adj", "adv"):
        (folder / f"data.{part}").write_text(licence, encoding="ascii")
        (folder / f"index.{part}").write_text(licence, encoding="ascii")
    return folder


def _line(
    offset: int, words: list[str], pointers: list[tuple[str, int]], gloss: str, offsets: list[int]
) -> str:
    named = " ".join(f"{word} 0" for word in words)
    marks = " ".join(f"{mark} {offsets[number]:08} n 0000" for mark, number in pointers)
    return f"{offset:08} 06 n {len(words):02x} {named} {len(pointers):03} {marks}{' ' if marks else ''}| {gloss}  \n"
