"""Constituency trees: bracket parsing, unary chains, tokens that an alignment must cover, and positions in the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.oracle.alignment import Node, Parsed, Tree, token_spans
from pytest_llmprops.core.errors import DataError

TEXT = "The old dog, tired of barking, slept."
BRACKETS = """(ROOT (S (NP (NP (DT The) (JJ old) (NN dog)) (, ,) (ADJP (JJ tired) (PP (IN of)
    (S (VP (VBG barking))))) (, ,)) (VP (VBD slept)) (. .)))"""


def test_brackets_and_unary_chains() -> None:
    """A unary chain becomes one node with joined labels, and a leaf keeps all labels of its chain."""
    tree = Tree.from_brackets(BRACKETS)
    assert tree.tokens == ("The", "old", "dog", ",", "tired", "of", "barking", ",", "slept", ".")
    assert tree.tags == ("DT", "JJ", "NN", ",", "JJ", "IN", "VBG", ",", "VBD", ".")
    assert tree.root.label == "ROOT+S"
    assert [child.label for child in tree.root.children] == ["NP", "VP+VBD", "."]
    assert [tree.nodes[place].label for place in tree.leaves][6] == "S+VP+VBG"
    assert all(len(node.children) != 1 for node in tree.nodes)


def test_several_trees_or_one_word() -> None:
    """A text of two sentences is one tree of both, in pre-order; a word alone is a single node, root and leaf.

    An unlabelled outer bracket adds no node.
    """
    tree = Tree.from_brackets("(ROOT (S (A a) (B b))) (ROOT (S (C c) (D d)))")
    assert [(node.label, node.start, node.end) for node in tree.nodes] == [
        ("TEXT", 0, 4), ("ROOT+S", 0, 2), ("A", 0, 1), ("B", 1, 2), ("ROOT+S", 2, 4), ("C", 2, 3), ("D", 3, 4),
    ]  # fmt: skip
    word = Tree.from_brackets("( (NP (NN Rain)))")
    assert (word.nodes, word.leaves, word.core) == ((Node("NP+NN", 0, 1),), (0,), (0, 1))


@pytest.mark.parametrize(
    ("brackets", "problem"),
    [
        ("", "it is empty"), ("(S (NP a)", "not closed"), ("(S (NP a)))", "closes that was not opened"),
        ("(S (NP a) b)", "either nodes or one token"), ("(S (NP a b))", "either nodes or one token"),
        ("(S ())", "either nodes or one token"),
        ("a (S (NP b))", "outside all brackets"),
    ],
)  # fmt: skip
def test_malformed_brackets(brackets: str, problem: str) -> None:
    """Text that is not a tree is refused in one line with the reason."""
    with pytest.raises(DataError, match=problem) as error:
        Tree.from_brackets(brackets)
    assert "\n" not in str(error.value)


@given(st.text(alphabet="() ab\n", max_size=40))
def test_any_text_is_a_tree_or_refused(text: str) -> None:
    """For any parser output, the result is a tree over its tokens or a DataError."""
    try:
        tree = Tree.from_brackets(text)
    except DataError:
        return
    assert [(tree.nodes[p].start, tree.nodes[p].end) for p in tree.leaves] == [
        (n, n + 1) for n in range(len(tree.tokens))
    ]


def test_a_deep_tree() -> None:
    """A deep tree can be read and walked."""
    deep = "(A (B b) " * 5_000 + "(C c)" + ")" * 5_000
    assert len(Tree.from_brackets(deep).nodes) == 10_001


def test_words_that_must_be_covered() -> None:
    """Prepositions and punctuation need no cover; conjunctions with the same tag, signs and words do."""
    words = (
        "(IN if) (IN Because) (RB not) (RP up) (NN %) ($ $) (NNP U.S.) (POS 's)",
        "(IN of) (TO to) (ADP In) (. .) (`` ``) (-LRB- -LRB-)",
    )
    for brackets, must in zip(words, (True, False), strict=True):
        tree = Tree.from_brackets(f"(S {brackets})")
        assert {tree.must_be_covered(place) for place in range(len(tree.tokens))} == {must}


def test_tokens_are_located_in_the_text() -> None:
    """Tokens are located in order, including treebank brackets and quotes, and phrases quote the text."""
    text = 'He (the "boss") didn\'t  go.'
    boss = "(B (-LRB- -LRB-) (DT the) (`` ``) (NN boss) ('' '') (-RRB- -RRB-))"
    sentence = Parsed.of(text, f"(S (A He) {boss} (V did) (RB n't) (VB go) (. .))")
    located = [text[start:end] for start, end in sentence.spans]
    assert located == ["He", "(", "the", '"', "boss", '"', ")", "did", "n't", "go", "."]
    assert (sentence.phrase((1, 7)), sentence.phrase((7, 10))) == ('(the "boss")', "didn't  go")


def test_treebank_brackets_in_the_text() -> None:
    """A treebank name of a bracket is located as the bracket or the name, depending on the text."""
    brackets = "(S (VB See) (NP (-LRB- -LRB-) (NN a) (-RRB- -RRB-)) (CC or) (NN b) (. .))"
    for shown in ("-LRB-a)", "(a-RRB-"):
        text = f"See {shown} or b."
        sentence = Parsed.of(text, brackets)
        assert (sentence.phrase((1, 4)), sentence.phrase((4, 7))) == (shown, "or b.")
        glued = (4, 4 + len(shown))
        assert token_spans(text, ("See", "(a)", "or", "b", ".")) == ((0, 3), glued, *sentence.spans[4:])


def test_tokens_that_are_not_in_the_text() -> None:
    """A token that does not come next in the text is refused."""
    for tokens in (("He", "goes"), ("go", "He"), ("He", "home")):
        with pytest.raises(DataError, match="does not follow"):
            token_spans("He did go home", tokens)


def test_content_words() -> None:
    """Nouns, verbs, adjectives and numbers have content; pronouns, auxiliaries, negations and articles have none."""
    tree = Tree.from_brackets(
        "(S (NP (PRP He)) (VP (MD will) (RB not) (VP (VB have) (VP (VBN had) (NP (CD two) (NNS plans))"
        " (PP (IN without) (NP (DT the) (NN mayor)))))) (. .))"
    )
    content = {token for place, token in enumerate(tree.tokens) if tree.is_content(place)}
    assert content == {"had", "two", "plans", "mayor"}


def test_leftover_words() -> None:
    """Leftover words are runs of the text without punctuation at their ends, and exclude single prepositions."""
    sentence = Parsed.of(TEXT, BRACKETS)
    assert sentence.left_over([]) == ("The old dog, tired of barking, slept",)
    assert sentence.left_over([(0, 1, 2, 3, 4), (6, 7, 8, 9)]) == ()
    assert sentence.left_over([(0, 1, 2), (3, 4), (7, 8, 9)]) == ("of barking",)
    assert sentence.left_over([(2, 3, 4, 5, 6)]) == ("The old", "slept")
