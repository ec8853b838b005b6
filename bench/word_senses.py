"""Measure word senses: ``python -m bench.word_senses DATA.xml GOLD.txt [--encoder SPEC] [--only PREFIX]``.

Two figures say how well senses separate variations, as ``dtails extract`` uses them: by the most frequent decision
over the occurrences of one right sense. *Told apart*: pairs of senses of a word, each with three occurrences, whose
decisions differ. *Split*: senses with six occurrences whose halves have different decisions. Words are in two halves by
their CRC-32, so that a weight can be chosen on one half and measured on the other.

The files are in the format of the evaluation framework of Raganato et al. (EACL 2017), with senses of WordNet 3.0:
words with lemma and universal part of speech, and the keys of the right senses by instance. Compared are the first
sense in WordNet's order, and an encoder (``--senses`` of ``dtails extract``).
"""

from __future__ import annotations

import argparse
import time
import xml.etree.ElementTree as ElementTree
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from pathlib import Path

from pytest_llmprops.benchmarks.dtails.tools.alignment import Encoder
from pytest_llmprops.benchmarks.dtails.tools.concepts import Word
from pytest_llmprops.benchmarks.dtails.tools.senses import GlossSenses, Place, find_wordnet

#: Occurrences that are decided together; the minimum number of occurrences of a sense, and of one that is halved.
_BATCH, _FEW, _HALVED = 256, 3, 6
#: A word, its part of speech, and the number of its right sense.
Sense = tuple[str, str, int]


def instances(data: Path, prefix: str) -> Iterator[tuple[str, Place]]:
    """Yield the id and place of each instance whose id begins with ``prefix``."""
    for sentence in ElementTree.parse(data).iter("sentence"):
        words = [Word(part.text or "", part.get("lemma", ""), part.get("pos", "")) for part in sentence]
        for index, part in enumerate(sentence):
            if part.tag == "instance" and part.get("id", "").startswith(prefix):
                yield part.get("id", ""), (words, index)


def separation(decisions: Mapping[Sense, list[int]]) -> str:
    """Return how many pairs of senses are told apart, and how many senses are split."""

    def decided(numbers: Iterable[int]) -> int:
        return Counter(numbers).most_common(1)[0][0]

    known = {sense: decided(numbers) for sense, numbers in decisions.items() if len(numbers) >= _FEW}
    pairs = [known[a] != known[b] for a, b in combinations(known, 2) if a[:2] == b[:2]]
    split = [decided(n[::2]) != decided(n[1::2]) for n in decisions.values() if len(n) >= _HALVED]
    return f"told apart {sum(pairs)} of {len(pairs)} pairs, split {sum(split)} of {len(split)}"


def main() -> None:
    """Print accuracies in percent and the time per instance."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("gold", type=Path)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--only", default="", help="prefix of ids, such as semeval2007")
    options = parser.parse_args()
    folder = find_wordnet()
    assert folder is not None, "WordNet is not installed"
    gold = {line.split()[0]: set(line.split()[1:]) for line in options.gold.read_text("utf-8").splitlines()}
    all_instances = list(instances(options.data, options.only))
    encoder, model = Encoder.load("--encoder", options.encoder)
    senses = GlossSenses(folder, encoder)
    keys = [_keys(senses, words[index]) for _, (words, index) in all_instances]
    first = sum(bool(own and own[0] & gold[name]) for (name, _), own in zip(all_instances, keys, strict=True))
    print(f"{len(all_instances):,} instances")
    print(f"first sense {100 * first / len(all_instances):.1f}%")
    start, right = time.perf_counter(), 0
    decisions: list[dict[Sense, list[int]]] = [{}, {}]
    for at in range(0, len(all_instances), _BATCH):
        part = all_instances[at : at + _BATCH]
        numbers = senses.numbers([place for _, place in part])
        for (name, (words, index)), number, own in zip(part, numbers, keys[at : at + _BATCH], strict=True):
            if number is None:
                continue
            right += bool(own[number] & gold[name])
            lemma, tag = words[index].lemma, words[index].tag
            expected = next((n for n, texts in enumerate(own) if texts & gold[name]), None)
            if len(own) > 1 and expected is not None:
                half = decisions[zlib.crc32(lemma.encode()) % 2]
                half.setdefault((lemma, tag, expected), []).append(number)
    seconds = time.perf_counter() - start
    share, each = right / len(all_instances), 1000 * seconds / len(all_instances)
    print(f"gloss {100 * share:.1f}%, {each:.1f} ms per instance")
    for number, half in enumerate(decisions):
        print(f"  half {number} of the words: {separation(half)}")
    senses.close()
    model.close()


def _keys(senses: GlossSenses, word: Word) -> list[set[str]]:
    """Return WordNet's sense keys of the lemma in each synset, in order: several if only their case differs."""
    return [
        {each.key() for each in synset.lemmas() if each.name().lower() == word.lemma.lower()}
        for synset in senses.synsets(word)
    ]


if __name__ == "__main__":
    main()
