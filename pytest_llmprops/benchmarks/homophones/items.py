"""Items from the built-in, published and generated files, with their two controls."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pytest_llmprops.core.benchmark import DataFiles
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.items import CONTROL_MARK, Item

#: Articles, pronouns, prepositions, conjunctions, auxiliaries, question words, and the most common adverbs.
_FUNCTION = {
    "en": (
        "a an the this that these those i me my mine myself you your yours yourself he him his himself she her hers "
        "herself it its itself we us our ours ourselves they them their theirs themselves who whom whose which what "
        "where when why how whether if and or but nor so yet for because although though unless until while since "
        "before after as than of in on at by to from with without into onto out off up down over under above below "
        "about against across along among around behind beside besides between beyond during near through toward "
        "towards upon within per via not no yes do does did doing done be am is are was were been being have has had "
        "having will would shall should can could may might must ought there here then thus also too very just only "
        "even still again ever never each every either neither both all any some none such other another much many "
        "more most few less least own same once"
    ),
    "zh": (
        "的 地 得 了 着 过 吗 呢 吧 啊 嘛 们 我 你 您 他 她 它 我们 你们 他们 她们 它们 "
        "咱们 自己 这 那 哪 这个 那个 哪个 这些 那些 这里 那里 哪里 这样 那样 怎么 怎样 怎么样 "
        "什么 谁 多少 几 是 在 有 没 没有 不 也 都 就 还 又 再 才 很 太 最 更 已 已经 曾 "
        "曾经 正 正在 将 会 能 可以 要 把 被 给 让 叫 对 对于 关于 从 自 由 向 往 朝 到 于 "
        "以 为 为了 因 因为 所以 因此 如果 假如 要是 虽然 尽管 但 但是 可是 然而 不过 而 而且 "
        "并 并且 和 与 跟 同 及 以及 或 或者 还是 除了 比 除 按 按照 根据 随着 通过 一 个 些 "
        "每 各 某 另 其 其他 其中 之 所 者 等"
    ),
    "es": (
        "a al ante bajo con contra de del desde durante en entre hacia hasta mediante para por según sin sobre tras "
        "el la los las lo un una unos unas yo tú vos usted ustedes él ella ello ellos ellas nosotros nosotras "
        "vosotros vosotras me te se nos os le les mí ti sí conmigo contigo mi mis tu tus su sus mío mía míos mías "
        "tuyo tuya suyo suya suyos suyas nuestro nuestra nuestros nuestras vuestro vuestra este esta esto estos estas "
        "ese esa eso esos esas aquel aquella aquello aquellos aquellas que qué quien quién quienes quiénes cual cuál "
        "cuales cuáles cuyo cuya donde dónde cuando cuándo como cómo cuanto cuánto porque aunque pues si ni no o u y "
        "e pero sino mientras apenas ya muy más menos tan tanto tanta también tampoco aquí allí ahí allá acá así aún "
        "todavía siempre nunca jamás cada todo toda todos todas algo alguien algún alguna algunos algunas nada nadie "
        "ningún ninguna otro otra otros otras mismo misma mucho mucha muchos muchas poco poca pocos pocas ser es son "
        "era eran fue fueron sea he has ha hemos han había habían haber estar está están estaba estaban estoy soy "
        "eres somos estamos voy vas va vamos van"
    ),
}
#: None of these is an answer alone if the next alternative begins with one of the same class.
_SAME_CLASS = {
    "pronouns": (
        "i you he she it we they yo tú él ella usted nosotros nosotras vosotros vosotras ellos ellas ustedes"
    ),
    "articles": (
        "a an the this that these those el la los las un una unos unas este esta estos estas ese esa esos esas"
    ),
    "possessives": ("my your his her its our their mi mis tu tus su sus"),
    "auxiliaries": (
        "is are was were has have had will would can could shall should may might must do does did"
    ),
}

FUNCTION_WORDS = {language: frozenset(words.split()) for language, words in _FUNCTION.items()}
WORD_CLASSES = tuple(frozenset(words.split()) for words in _SAME_CLASS.values())


ASKED, CONTEXT_ONLY, WORD_ONLY = "asked", "context_only", "word_only"
#: The blank that replaces the word in the sentence.
MASK = "____"
_ID_MARK = {"published": "p", "generated": "g"}


@dataclass(frozen=True, slots=True)
class Edition:
    """One language's built-in file, published file and answer columns."""

    language: str
    builtin: str
    published: str
    answers: tuple[str, ...]


EDITIONS = (
    Edition("en", "english.csv", "testset_english.csv", ("answer",)),
    Edition("zh", "chinese.csv", "testset_chinese.csv", ("answer_chinese", "answer_english")),
    Edition("es", "spanish.csv", "testset_espanol.csv", ("answer_spanish", "answer_english")),
)


def masked(sentence: str, word: str) -> str | None:
    """Return the sentence with every occurrence of the word blanked out, ignoring case; None if there is none.

    In 28 English rows and one Spanish row of the published files, the word is spelt differently in the sentence.
    """
    for pattern in (rf"(?<!\w){re.escape(word)}(?!\w)", re.escape(word)):
        blanked, places = re.subn(pattern, MASK, sentence, flags=re.IGNORECASE)
        if places:
            return blanked
    return None


def is_in(sentence: str, word: str) -> bool:
    """Return True if :func:`masked` finds the word, in most cases without a new regular expression."""
    lower = sentence.lower()
    return (word.lower() in lower and len(lower) == len(sentence)) or masked(sentence, word) is not None


def items(files: DataFiles) -> Iterator[Item]:
    """Yield the items of all languages whose file exists, each followed by its controls.

    :raises DataError: if no file exists, or a row has no word or answer.
    """
    is_any_file_there = False
    for edition in EDITIONS:
        name = edition.builtin if files.source == "builtin" else edition.published
        if files.exists(f"homophones/{name}"):
            is_any_file_there = True
            yield from _edition(files, edition, f"homophones/{name}")
    if not is_any_file_there:
        # Reading a missing file raises the error that says how to get it.
        first = EDITIONS[0]
        files.text(f"homophones/{first.builtin if files.source == 'builtin' else first.published}")


def _edition(files: DataFiles, edition: Edition, path: str) -> Iterator[Item]:
    rows = files.csv(path, required=("sentence", "word", edition.answers[0]))
    mark = _ID_MARK.get(files.source, "")
    for number, row in enumerate(rows, 1):
        sentence, word = row["sentence"].strip(), row["word"].strip()
        answers = tuple(a for column in edition.answers for a in alternatives(row.get(column, "")))
        if not sentence or not word or not answers:
            raise DataError(
                f"{path}: row {number}: sentence, word and {edition.answers[0]} must not be empty"
            )
        name = f"homophones/{edition.language}/{mark}{row.get('id') or format(number, '04d')}"
        label = row.get("function_word")
        function_word = label == "1" if label else answers[0].casefold() in FUNCTION_WORDS[edition.language]
        fields: Mapping[str, object] = {
            "sentence": sentence,
            "word": word,
            "answers": answers,
            "function_word": function_word,
            "dialect": row.get("dialect") or "",
        }
        yield Item(name, ASKED, edition.language, files.source, fields=fields)
        if is_in(sentence, word):
            control = f"{name}{CONTROL_MARK}{CONTEXT_ONLY}"
            yield Item(control, CONTEXT_ONLY, edition.language, files.source, fields=fields)
        yield Item(
            f"{name}{CONTROL_MARK}{WORD_ONLY}", WORD_ONLY, edition.language, files.source, fields=fields
        )


def alternatives(cell: str) -> list[str]:
    """Return the answers that a cell separates with slashes; each is a whole answer.

    ``soy milk/soymilk`` has the answers "soy milk" and "soymilk". ``she/he opened`` has "she opened" and "he opened",
    because a slash between two words of one class separates only these words.
    """
    answers: list[str] = []
    shared: list[str] = []
    for part in filter(None, (part.strip() for part in cell.split("/"))):
        first, _, rest = part.partition(" ")
        if not rest and any(part.casefold() in members for members in WORD_CLASSES):
            shared.append(part)
            continue
        for word in shared:
            is_alike = any({word.casefold(), first.casefold()} <= members for members in WORD_CLASSES)
            answers.append(f"{word} {rest}" if rest and is_alike else word)
        shared = []
        answers.append(part)
    return answers + shared
