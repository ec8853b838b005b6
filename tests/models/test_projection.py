"""Phrase structure from dependencies: expected shapes, and leaves in order for any parse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.oracle.alignment import Parsed, Tree
from pytest_llmprops.models.parsers.phrases import Token, bracketed


def tokens(rows: str) -> list[Token]:
    """Return tokens ``text tag upos head relation``, separated by ``|``; heads count from 1, 0 is a root."""
    result = []
    for row in rows.split("|"):
        text, tag, upos, head, relation = row.split()
        result.append(Token(text, "" if tag == "-" else tag, upos, int(head) - 1, relation))
    return result


def tree(rows: str) -> str:
    """Return the bracketed tree of such tokens, without their tags."""
    plain = [token._replace(tag=token.tag or token.upos) for token in tokens(rows)]
    brackets = bracketed(plain)
    for token in sorted(plain, key=lambda token: -len(token.text)):
        brackets = brackets.replace(f"({token.tag} {token.text})", token.text)
    return brackets


#: what a tree shows -> tokens, and their tree
TREES = {
    "a clause is its subject and a verb phrase; prepositions form phrases; a final stop belongs to the clause": (
        """The DT DET 2 det | dog NN NOUN 3 nsubj | slept VBD VERB 0 ROOT | in IN ADP 3 prep | the DT DET 6 det |
        house NN NOUN 4 pobj | . . PUNCT 3 punct""",
        "(ROOT (S (NP The dog) (VP slept (PP in (NP the house))) .))",
    ),
    "each auxiliary is in a verb phrase around the rest; words between it and the verb are its siblings": (
        "She PRP PRON 5 nsubj | will MD AUX 5 aux | not RB PART 5 neg | have VB AUX 5 aux | slept VBN VERB 0 ROOT",
        "(ROOT (S (NP She) (VP will not (VP have (VP slept)))))",
    ),
    "a noun phrase is in the longer one with its modifiers; possessors and relative clauses are phrases": (
        """John NNP PROPN 4 poss | 's POS PART 1 case | old JJ ADJ 4 amod | friend NN NOUN 9 nsubj |
        from IN ADP 4 prep | Rome NNP PROPN 5 pobj | who WP PRON 8 nsubj | sings VBZ VERB 4 relcl |
        came VBD VERB 0 ROOT""",
        "(ROOT (S (NP (NP (NP John 's) old friend) (PP from (NP Rome)) (SBAR (WHNP who) (S (VP sings)))) (VP came)))",
    ),
    "chained conjuncts are parts of one phrase, with the commas between them": (
        """Red JJ ADJ 2 amod | dogs NNS NOUN 8 nsubj | , , PUNCT 2 punct | cats NNS NOUN 2 conj |
        and CC CCONJ 4 cc | white JJ ADJ 7 amod | mice NNS NOUN 4 conj | slept VBD VERB 0 ROOT""",
        "(ROOT (S (NP (NP Red dogs) , (NP cats) and (NP white mice)) (VP slept)))",
    ),
    "conjuncts that are not finite share the subject and the auxiliaries of the first one": (
        "He PRP PRON 3 nsubj | has VBZ AUX 3 aux | come VBN VERB 0 ROOT | and CC CCONJ 3 cc | seen VBN VERB 3 conj",
        "(ROOT (S (NP He) (VP has (VP (VP come) and (S (VP seen))))))",
    ),
    "clauses with subjects are coordinated as clauses; one without is under the subject before it": (
        """He PRP PRON 2 nsubj | came VBD VERB 0 ROOT | , , PUNCT 2 punct | ate VBD VERB 2 conj |
        and CC CCONJ 4 cc | she PRP PRON 7 nsubj | left VBD VERB 4 conj""",
        "(ROOT (S (S (NP He) (VP (VP came) , (S (VP ate)))) and (S (NP she) (VP left))))",
    ),
    "a subordinator is next to its clause; an inverted subject is part of the clause; quotes attach high": (
        """" `` PUNCT 4 punct | It PRP PRON 3 nsubj | rains VBZ VERB 4 ccomp | said VBD VERB 0 ROOT |
        Ann NNP PROPN 4 nsubj | as IN SCONJ 8 mark | she PRP PRON 8 nsubj | left VBD VERB 4 advcl |
        . . PUNCT 4 punct""",
        '(ROOT (S " (S (NP It) (VP rains)) (VP said) (NP Ann) (SBAR as (S (NP she) (VP left))) .))',
    ),
    "an interrogative phrase is next to its clause; an auxiliary before the subject opens no phrase": (
        "Whom WP PRON 4 dobj | did VBD AUX 4 aux | she PRP PRON 4 nsubj | see VB VERB 0 ROOT | ? . PUNCT 4 punct",
        "(ROOT (SBARQ (WHNP Whom) (S did (NP she) (VP see)) ?))",
    ),
    "universal: copulas open a verb phrase; prepositions and conjunctions may depend on their noun": (
        """He - PRON 6 nsubj | and - CCONJ 3 cc | Bob - PROPN 1 conj | are - AUX 6 cop | good - ADJ 6 amod |
        friends - NOUN 0 root | of - ADP 8 case | Ann - PROPN 6 nmod""",
        "(ROOT (S (NP (NP He) and (NP Bob)) (VP are (NP (NP good friends) (PP of (NP Ann))))))",
    ),
    "a dependent outside its head's span is attached to the head's head, and the order is unchanged": (
        """A DT DET 2 det | hearing NN NOUN 3 nsubj | is VBZ VERB 0 ROOT | scheduled VBN VERB 3 acomp |
        on IN ADP 2 prep | this DT PRON 5 pobj | today NN NOUN 4 npadvmod""",
        "(ROOT (S (NP A hearing) (VP is (S (VP scheduled)) (PP on (NP this)) (NP today))))",
    ),
}


@pytest.mark.parametrize("name", TREES)
def test_trees(name: str) -> None:
    rows, expected = TREES[name]
    assert tree(rows) == expected


def test_tags_and_sentences() -> None:
    """Tokens have the treebank's tags, or else the universal ones; several trees are under one node."""
    brackets = bracketed(tokens("Dogs NNS NOUN 2 nsubj | bark VBP VERB 0 ROOT | Ann - PROPN 0 root"))
    assert brackets.startswith("(ROOT (S (NP (NNS Dogs)) (VP (VBP bark)))) (ROOT (NP (PROPN Ann")
    assert Tree.from_brackets(brackets).root.label == "TEXT"


def test_attachment_of_punctuation() -> None:
    """A comma at a phrase's end attaches above the phrase; brackets around a phrase are part of it."""
    rows = (
        "Dogs NNS NOUN 8 nsubj | , , PUNCT 1 punct | ( -LRB- PUNCT 5 punct | old JJ ADJ 5 amod |"
        " ones NNS NOUN 1 appos | ) -RRB- PUNCT 5 punct | , , PUNCT 1 punct | bark VBP VERB 0 ROOT"
    )
    tree = Tree.from_brackets(bracketed(tokens(rows)))
    spans = {(node.label, node.start, node.end) for node in tree.nodes}
    assert {("NP", 0, 6), ("NP", 2, 6), ("NP", 3, 5)} <= spans
    assert not any(node.end == 7 and node.size > 1 for node in tree.nodes)


def test_brackets_inside_tokens() -> None:
    """Brackets as tokens, inside words and as tags are restored as in the text."""
    rows = "word(s NN NOUN 0 ROOT | ) -RRB- PUNCT 1 punct | :( ( PUNCT 1 punct"
    parsed = Parsed.of("word(s) :(", bracketed(tokens(rows)))
    assert parsed.tree.tokens == ("word(s", ")", ":(")
    assert parsed.tree.tags == ("NN", "-RRB-", "-LRB-")


def test_circles_are_refused() -> None:
    """Heads that form a cycle are an error, not an endless loop."""
    with pytest.raises(ValueError, match="cycle"):
        bracketed(tokens("a NN NOUN 2 dep | b NN NOUN 1 dep"))


def test_deep_nesting() -> None:
    """A text nested a thousand levels deep does not exceed Python's stack."""
    count = 1500
    chain = [Token("x", "NN", "NOUN", place - 1, "appos") for place in range(count)]
    assert bracketed(chain).count("(NN x)") == count


RELATIONS = """nsubj nsubjpass dobj aux auxpass neg cc conj punct mark det amod compound nummod poss case prep pobj
    relcl ccomp xcomp advcl advmod appos acl attr expl cop dep"""
UPOS = "NOUN VERB AUX ADJ ADV ADP PRON PROPN NUM PUNCT CCONJ SCONJ DET PART SYM INTJ X"
TAGS = ["", "NN", "VBD", "VB", "IN", "TO", "WP", "WRB", "MD", ".", "``"]
TEXTS = ["a", "(", ")", '"', "“", "”", ",", ".", "'s", "x(y", "-"]


@st.composite
def parses(draw: st.DrawFn) -> list[Token]:
    """Generate any forest, with or without crossing arcs, with any labels."""
    count = draw(st.integers(1, 14))
    # A token's head precedes it in a random order, so there are no cycles.
    order = draw(st.permutations(range(count)))
    heads = [-1] * count
    for number, place in enumerate(order[1:], start=1):
        if draw(st.integers(0, 9)):
            heads[place] = order[draw(st.integers(0, number - 1))]
    pick = st.sampled_from
    return [
        Token(
            draw(pick(TEXTS)), draw(pick(TAGS)), draw(pick(UPOS.split())), head, draw(pick(RELATIONS.split()))
        )
        for head in heads
    ]


@given(parses())
def test_leaves_are_in_order_for_any_parse(parse: list[Token]) -> None:
    """Every token is a leaf exactly once and in order, and the tree is deterministic."""
    brackets = bracketed(parse)
    read = Tree.from_brackets(brackets)
    assert read.tokens == tuple(token.text for token in parse)
    assert bracketed(parse) == brackets
