"""JSON in replies, read leniently."""

from __future__ import annotations

from pytest_llmprops.core.reply_json import found_json


def test_found_json() -> None:
    """JSON is found anywhere, with common mistakes, and the rest of the text is returned."""
    for text, values, rest in (
        ('a {"b": "c"} d', [(("b", "c"),)], "a \n d"),
        ('{"b": 1, "b": 2}', [(("b", "1"), ("b", "2"))], "\n"),
        ('["b", 1.5, True, none, null]', [["b", "1.5", True, None, None]], "\n"),
        ("[] and {}", [[], ()], "\n and \n"),
        ('{ so {"b": "c"} }', [(("b", "c"),)], "{ so \n }"),
        ('{"b": c, {"d": "e"}', [(("b", "c"),), (("d", "e"),)], "\n\n"),
        ('["b", ["c", ("d", "e")], {f: [g]}]', [["b", ["c", ["d", "e"]]]], "\n]}]"),
        ("[1] [sic] (see) [b, c] [ ]", [[]], "[1] [sic] (see) [b, c] \n"),
        ('("b", "c")', [], '("b", "c")'),
        ('{"b": "c \\" d", "e": "f"}', [(("b", 'c " d'), ("e", "f"))], "\n"),
        ('{"b": "c \\", \\"d"}', [(("b", 'c ", "d'),)], "\n"),
        ('{\\"b\\": \\"c\\"}', [(("b", "c"),)], "\n"),
        ('{"b": "c" "d": "e"}', [(("b", "c"), ("d", "e"))], "\n"),
        ('{"b": "c"\n"d": "e",}', [(("b", "c"), ("d", "e"))], "\n"),
        ('{"b": "say "c" now", // d\n "e" => f}', [(("b", 'say "c" now'), ("e", "f"))], "\n"),
        ("{'b': 'it's', “c”：‘d’，「e」: 「f」}", [(("b", "it's"), ("c", "d"), ("e", "f"))], "\n"),
        ('{"b": ["c", "d', [(("b", ["c"]),)], "\n"),
        ('{"b": ', [], '{"b": '),
        ("[", [], "["),
        ('{"b": "c]', [], '{"b": "c]'),
        ('{"b": "\\ud83d\\ude00 \\ud800\\n\\u00e9"}', [(("b", "😀 \ufffd\né"),)], "\n"),
        ('{"b": "c"]', [(("b", "c"),)], "\n"),
    ):
        assert found_json(text) == (values, rest)


def test_deep_nesting() -> None:
    """No nesting is too deep for the reader."""
    for opening in ("[", "{", '{"a": ', "[(", "[{a: ("):
        found_json(opening * 20_000)
        found_json("[" + opening[1:] * 20_000)
