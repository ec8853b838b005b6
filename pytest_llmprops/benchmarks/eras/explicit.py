"""Explicit garden path errors: judge how a segmentation cuts the site, and compute the accuracies.

The rule is the paper's (Li and Hao, section 3.1). A site is three characters x1 x2 x3. In a left-branching
sentence x1 x2 is the true word and x2 x3 the canary word; in a right-branching one, the reverse.
A left-branching site is wrong if it has a boundary between x1 and x2 and none between x2 and x3. A
right-branching site is wrong if it has a boundary between x2 and x3 and none between x1 and x2. All other
segmentations are right. Accuracies are means over paradigms, never over sentences.

So a sentence without any boundary is right, and so is one in which every character is a word. The rule
``segmented`` calls them wrong; see :func:`is_degenerate`.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import accumulate, pairwise
from typing import Literal

from pytest_llmprops.benchmarks.eras.settings import EXPLICIT_TASK
from pytest_llmprops.core.metrics import Metric, Place
from pytest_llmprops.core.segmentation import with_whitespace
from pytest_llmprops.core.statistics import mean_interval

Branching = Literal["left", "right"]
Canary = Literal["none", "token", "swallowed"]

PROMPT = (
    "请把下面的句子切分成词，词与词之间用一个空格隔开。"
    "不要改动、增加或删去任何字，不要解释，只回答切分后的句子。\n\n{text}"
)

#: The request after a reply that cannot be read.
RETRY = "上面的回答无法读取：{problem}。" + PROMPT


@dataclass(frozen=True, slots=True)
class SiteOutcome:
    """The outcome of a segmentation at one site.

    :param right: Right by the rule. :param canary: ``token`` if the canary word is exactly a word of
        the segmentation, ``swallowed`` if the site is wrong and the canary word is part of a longer word.
    """

    right: bool
    canary: Canary


_RIGHT = SiteOutcome(True, "none")
_TOKEN = SiteOutcome(False, "token")
_SWALLOWED = SiteOutcome(False, "swallowed")
#: By the rule ``segmented``: no boundary inside the site, or both, in a degenerate segmentation.
DEGENERATE = SiteOutcome(False, "none")


def judge_site(edges: Container[int], start: int, branching: Branching) -> SiteOutcome:
    """Judge one site by the word boundaries of :func:`~pytest_llmprops.core.segmentation.boundaries`.

    :param start: Position of x1 in the sentence, from 0.
    """
    if branching == "left":
        if start + 1 not in edges or start + 2 in edges:
            return _RIGHT
        return _TOKEN if start + 3 in edges else _SWALLOWED
    if start + 2 not in edges or start + 1 in edges:
        return _RIGHT
    return _TOKEN if start in edges else _SWALLOWED


#: Words per character of a sentence. With less than the first or more than the second number, a segmentation is
#: degenerate. jieba (with and without its hidden Markov model), PKUSEG, MaxMatch with the MSR words, THULAC and SnowNLP
#: give .44 to .91, on all sentences of the built-in and the published paradigms; 5 of 32,760 are outside the range.
SENTENCE_RANGE = (0.4, 0.9)
#: The same for the mean of a run. These segmenters give .61 to .68.
RUN_RANGE = (0.5, 0.8)


def is_degenerate(words: int, characters: int) -> bool:
    """Return True if a sentence has fewer or more words than any segmenter gives."""
    return not SENTENCE_RANGE[0] * characters <= words <= SENTENCE_RANGE[1] * characters


@dataclass(frozen=True, slots=True)
class ChatSegmentation:
    """A chat model's reply, read as a segmentation: the words, or no words and the problem."""

    words: tuple[str, ...]
    problem: str = ""


EMPTY = "the reply is empty"
UNSEGMENTED = "the reply is the sentence without a space between its words"
SEVERAL = "the reply has several different segmentations of the sentence"
OTHER = "the reply is not the sentence with spaces between its words"
_IN_CHINESE = {
    EMPTY: "回答是空的",
    UNSEGMENTED: "句子没有切分",
    SEVERAL: "有几种不同的切分",
    OTHER: "其中没有原句的切分",
}


def retry_prompt(problem: str, text: str) -> str:
    """Return the request for another segmentation of ``text``, with the problem of the last reply."""
    return RETRY.format(problem=_IN_CHINESE[problem], text=text)


#: Marks that may end a sentence. A reply may leave out the full stop or write a dot.
_FINAL = "。｡．.！!？?…"
# Characters that are skipped in a reply, unless the sentence contains them: spaces, separators, quotes, brackets,
# digits (numbering) and Latin letters (part-of-speech tags, glosses, JSON keys). Chinese characters and marks that
# end a sentence are kept, so that an added one is noticed.
_KEPT = re.compile(
    r"[^\x00-\x20\x22-\x3e\x40-\u036f\u1e00-\u1eff\u2000-\u2bff\u3000\u3001\u3003\u3004\u3006\u3008-\u303f\u30fb"
    r"\ufe00-\ufe0f\ufeff\uff02-\uff1e\uff20-\uff60\uff62-\uff65\U0001f000-\U0001faff]+"
)
_SEPARATOR = re.compile(r"[\s/\\|｜／│┃‖,，、;；:：.．·•・‧∙\-－–—→⇒⟶>＞=＝+＋_＿▁#＃&＆^~～]|\*{4}")
_COMMA = re.compile(r"[,，、;；:：]")
_TAG = re.compile(r"[A-Za-z0-9]+")
_BRACKET = re.compile(r"[\"'“”‘’「」『』《》〈〉【】〔〕()（）\[\]［］{}｛｝<＜`]")
#: Marks between other text and a segmentation: before it and after it.
_OPENED = re.compile(r"[:：→⇒⟶>＞=＝\"'“‘「『《【(（\[［{｛<`*\n]")
_CLOSED = re.compile(r"[.．→⇒⟶\"'”’」』》】)）\]］}｝<(（`*\n]")
#: A dot instead of the full stop.
_DOT = re.compile(r"[\s/|,，、\"']*[.．]")
#: Longest text between two characters of a sentence, such as a JSON object per word.
_LONGEST_GAP = 80
#: Fewer words per character than this: commas are not separators, the model added them to the sentence.
_FEWEST_WORDS = 0.3
#: An explanation in brackets after a word, or the Chinese name of a part of speech.
_GLOSS = re.compile(
    r"(?:(?<=[\u4e00-\u9fff*`。])|(?<=[\u4e00-\u9fff*`。]\s))[（(\[【<][^（）()\[\]【】<>\n]{1,30}[)）\]】>]"
    r"|(?<=[\s/|:：\-–—_\"'，,])[\u4e00-\u9fff]{0,4}(?:词|标点|符号|人名|地名)(?=[\s/|,，;；\"'。)）\]}]|$)"
)
# How a reply calls one of several segmentations, before it or directly after it.
_REJECTED = re.compile(
    r"错误|错的|有误|误切|不正确|不准确|不对|不应|不能|不可|不是|而非|初步|草稿|[改正]前|调整前|✗|✘|❌|\b(?:wrong|incorrect|not|draft)\b",
    re.IGNORECASE,
)
_CHOSEN = re.compile(
    r"最终|最后|正确|准确|修正|更正|改正|纠正|修改|调整|改为|应为|应该|应当|答案|✓|✔|✅|\b(?:final|correct|corrected|revised)\b",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(r"[。！？!?；;，,\n]")
#: An introduction without a colon, with the space after it.
_INTRODUCTION = re.compile(
    r"(?:如下|结果|句子|答案|切分|分词|切|分)[是为成]?\W*$|(?:好的|当然|可以|没问题|明白了?|收到)[,，]\s*$"
)
_COMMENT = re.compile(
    r"[ \t]{0,3}[。.]?[ \t]{0,3}(?:[（(\[][^）)\]\n]{1,12}|[是为][^，。\n]{1,12}|[✗✘❌✓✔✅])"
)
#: Length of the text before a segmentation that may call it right or wrong.
_LABEL = 40


def read_segmentation(reply: str, text: str) -> ChatSegmentation:
    """Read the segmentation of ``text`` in a chat model's reply, whatever is between the words and around them.

    Words may be separated by spaces, line ends, slashes, bars or commas; they may be quoted, numbered or tagged. The
    reply may introduce, repeat or explain the segmentation. The final full stop may be missing. Not read: a sentence
    with other characters, one without separators, and different segmentations unless the reply calls one of them
    right. Whitespace in ``text`` is a separate word.
    """
    characters = "".join(text.split())
    core = characters.rstrip(_FINAL) or characters
    if not core or not reply.strip(" \t\r\n\u3000`\"'"):
        return ChatSegmentation((), EMPTY)
    # Boundaries at the sentence's own whitespace are no work of the model.
    own = frozenset(accumulate(map(len, text.split())))
    is_whole = False
    for version in (reply, _GLOSS.sub("()", reply)):
        cuts = list(_cuts(version, core, characters[len(core) :]))
        segmented = [cut for cut in cuts if cut.edges - own] or [cut for cut in cuts if cut.before_final]
        is_whole = is_whole or any(cut.is_complete and not cut.edges - own for cut in cuts)
        chosen = _chosen(segmented)
        if chosen is not None:
            return ChatSegmentation(_words(chosen, core, text))
        if len(segmented) > 1:
            return ChatSegmentation((), SEVERAL)
    if is_whole and len(core) == 1:
        return ChatSegmentation((characters,))
    return ChatSegmentation((), UNSEGMENTED if is_whole else OTHER)


@dataclass(frozen=True, slots=True)
class _Cut:
    """One occurrence of a sentence in a reply.

    :param edges: Positions of the boundaries inside the sentence without its final mark.
    :param before_final: There is a boundary before the reply's final mark. :param has_final: There is such a mark.
    :param is_complete: Nothing is added before or after the sentence. :param label: What the reply calls it.
    """

    edges: frozenset[int]
    before_final: bool
    has_final: bool
    is_complete: bool
    label: str


def _cuts(reply: str, core: str, final: str) -> Iterator[_Cut]:
    """Yield the occurrences of a sentence in a reply, with anything that is skipped between its characters.

    :param core: The sentence without whitespace and without its ``final`` mark.
    """
    own = "".join(set(_KEPT.sub("", core)))
    kept = re.compile(f"{_KEPT.pattern}|[{re.escape(own)}]+") if own else _KEPT
    places = [place for run in kept.finditer(reply) for place in range(*run.span())]
    content = "".join([reply[place] for place in places])
    places.append(len(reply))
    end, start = 0, content.find(core)
    while start >= 0:
        stop = start + len(core)
        edges, shapes = _edges([reply[a + 1 : b] for a, b in pairwise(places[start:stop])])
        before = reply[places[start - 1] + 1 if start else 0 : places[start]]
        after = reply[places[stop - 1] + 1 : places[stop]]
        following = content[stop : stop + 1]
        has_final = bool(following) and following in ("。", "｡", final)
        # A word that is separated like the sentence's own words was added to the sentence.
        is_begun = (
            start == 0
            or content[start - 1] in _FINAL
            or _is_outside(before, shapes, _OPENED)
            or _INTRODUCTION.search(reply[max(0, places[start] - _LABEL) : places[start]]) is not None
        )
        is_ended = not following or has_final or _is_outside(after, shapes, _CLOSED)
        if edges is not None:
            dot = None if has_final else _DOT.match(after)
            space = after if dot is None else after[: dot.end() - 1]
            has_final = has_final or dot is not None
            label = _label(reply[max(end, places[start] - _LABEL) : places[start]])
            comment = _COMMENT.match(reply, places[stop - 1] + 1)
            is_cut = has_final and bool(_separates(space))
            end = comment.end() if comment else places[stop - 1] + 1
            yield _Cut(
                edges, is_cut, has_final, is_begun and is_ended, label + reply[places[stop - 1] + 1 : end]
            )
        start = content.find(core, stop)


def _edges(gaps: Sequence[str]) -> tuple[frozenset[int] | None, frozenset[str]]:
    """Return the boundaries among the gaps between a sentence's characters, and the shapes of these gaps.

    The boundaries are None if a gap has something that is neither a separator nor emphasis.
    """
    known = {gap: _separates(gap) for gap in set(gaps)}
    edges = [place for place, gap in enumerate(gaps, 1) if known[gap]]
    shapes = frozenset(_shape(gap) for gap, is_boundary in known.items() if is_boundary)
    if None in known.values():
        return None, shapes
    plain = [gap for gap in known if known[gap] and not _TAG.search(gap)]
    with_comma = sum(_COMMA.search(gap) is not None for gap in plain)
    # Commas at some places only, or at a few, belong to the sentence: the model added them.
    is_changed = 0 < with_comma < len(plain) or (
        with_comma > 0 and len(edges) + 1 < _FEWEST_WORDS * (len(gaps) + 1)
    )
    tags = [_TAG.findall(gap) for gap in gaps]
    letters = {tag[0].upper() for tag in tags if len(tag) == 1}
    # Characters tagged with their position in a word (B, M, E, S or B, I, O) are not words of one character.
    is_by_character = len(edges) == len(gaps) and letters <= set("BMESIO") and bool(letters & set("MEI"))
    return (None if is_changed or is_by_character else frozenset(edges)), shapes


def _separates(gap: str) -> bool | None:
    """Return True if a gap is a word boundary, False if it is not, None if it cannot be in a segmented sentence."""
    brackets = len(_BRACKET.findall(gap))
    if len(gap) > _LONGEST_GAP:
        return None
    if _SEPARATOR.search(gap) or brackets > 1:
        return True
    return None if brackets or _TAG.search(gap) else False


def _shape(gap: str) -> str:
    """Return a gap with equal letters, digits and runs of spaces."""
    return re.sub(r"[ \t\u3000\xa0]+", " ", re.sub(r"[A-Za-z]+", "x", re.sub(r"[0-9]+", "0", gap)))


def _is_outside(gap: str, shapes: Container[str], mark: re.Pattern[str]) -> bool:
    return mark.search(gap) is not None and _shape(gap) not in shapes


def _label(text: str) -> str:
    """Return the last clause of the text before a segmentation."""
    clauses = [clause for clause in _CLAUSE_END.split(text) if re.search(r"[^\W\d_]|[✗✘❌✓✔✅]", clause)]
    return clauses[-1] if clauses else ""


def _chosen(cuts: Sequence[_Cut]) -> _Cut | None:
    """Return the only segmentation that is not rejected, or the only one of them that is called right."""
    remaining = [cut for cut in cuts if not _REJECTED.search(cut.label)]
    for group in (remaining, [cut for cut in remaining if _CHOSEN.search(cut.label)]):
        complete = [cut for cut in group if cut.is_complete]
        if complete and len({cut.edges for cut in group}) == 1:
            return complete[-1]
    return None


def _words(cut: _Cut, core: str, text: str) -> tuple[str, ...]:
    words = [core[a:b] for a, b in pairwise(sorted(cut.edges | {0, len(core)}))]
    final = "".join(text.split())[len(core) :]
    if final and (cut.before_final or not cut.has_final):
        words.append(final)
    elif final:
        words[-1] += final
    return tuple(with_whitespace(words, text))


@dataclass(frozen=True, slots=True)
class ParadigmFacts:
    """The properties that determine a paradigm's groups; ``sentiment`` is ``+/-``, ``-/0`` …"""

    branching: Branching
    sentiment: str


@dataclass(frozen=True, slots=True)
class ParadigmScore:
    """The shares of one paradigm's sentences that are segmented correctly at the site, in [0, 1].

    :param pairs: Number of pairs. :param both: Share of pairs with both sentences correct.
    """

    paradigm: str
    pairs: int
    test: float
    control: float
    both: float


def paradigm_scores(outcomes: Iterable[tuple[str, bool, bool]]) -> tuple[ParadigmScore, ...]:
    """Return the accuracies of each paradigm (section 3.1), sorted by paradigm.

    :param outcomes: (paradigm, test sentence right, control sentence right) for each pair.
    """
    counts: dict[str, list[int]] = {}
    for paradigm, test, control in outcomes:
        # One counter per combination: neither right, control only, test only, both.
        counts.setdefault(paradigm, [0, 0, 0, 0])[2 * test + control] += 1
    scores = []
    for paradigm, (neither, only_control, only_test, both) in sorted(counts.items()):
        n = neither + only_control + only_test + both
        scores.append(ParadigmScore(paradigm, n, (only_test + both) / n, (only_control + both) / n, both / n))
    return tuple(scores)


def accuracy_rows(
    place: Place, scores: Sequence[ParadigmScore], facts: Mapping[str, ParadigmFacts]
) -> list[Metric]:
    """Return test, control and pair accuracy and the difference as means over paradigms (Table 1).

    Groups: ``overall``, ``left``, ``right`` and the sentiment classes that occur. ``n`` counts pairs.

    The 95% intervals are those of the mean of bounded numbers, one per paradigm
    (:func:`~pytest_llmprops.core.statistics.mean_interval`).

    :param place: Task, language and source of the rows.
    """
    rows: list[Metric] = []
    for group in ("overall", "left", "right", *sorted({facts[s.paradigm].sentiment for s in scores})):
        members = [s for s in scores if group in ("overall", *astuple(facts[s.paradigm]))]
        if members:
            rows += _group_rows(place, group, members)
    return rows


def _group_rows(place: Place, group: str, members: Sequence[ParadigmScore]) -> list[Metric]:
    names = [s.paradigm for s in members]
    n = sum(s.pairs for s in members)
    columns = {
        "test_accuracy": [s.test for s in members],
        "control_accuracy": [s.control for s in members],
        "difference": [s.control - s.test for s in members],
        "both_accuracy": [s.both for s in members],
    }
    rows = []
    for name, direction in EXPLICIT_TASK.items():
        values = columns[name]
        low, high, _ = mean_interval(values, names, least=-1.0 if name == "difference" else 0.0)
        rows.append(Metric(*place, name, sum(values) / len(values), n, group, low, high, direction))
    return rows
