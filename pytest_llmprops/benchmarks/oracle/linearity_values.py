"""The recorded numbers of a sentence that was tested for linearity (Zeng, Wang & Ibbetson, section 5.1).

Counts, unless noted otherwise:

======================  ============================================================================================
accepted                1 or 0
no_entities             1 if the answer is empty: accepted trivially, counted separately
unmeasurable            1 if the outcome is ``unmeasurable``
no_informative_test     1 if no test could fail, whatever the extractor: a single entity, or an unlucky draw
linear_not_faithful     1 if it is accepted although f is not the complement on some tested sentence, or although no
                        tested sentence is changed
entities                entities of the answer, #E
tested                  those in the vectors, m
named                   tested entities that are named
not_literal             not in the sentence as the model writes them; left out of the vectors
contained               only inside longer entities; left out
no_synonym              without a valid replacement; left out
con_o                   samples of the original sentence with the answer
con_o_2, con_o_3 ...    the sizes of the other groups of equal answers, largest first (figure 10)
con_rs                  the lowest such number over the tested sentences
samples                 samples per asking
unread                  replies that were not a list, cut off or filtered, for the original and the tested sentences
tests, tests_passed     by the decision rule; ``tests_passed`` is A_test
epsilon, delta          of a measurement that tests until a bound is reached
known_in_full           of such a measurement: 1 if it is accepted and every vector was asked about
informative_tests       tests that can fail: x and y are different and not 0
combinations            combinations of samples over all tests: tests x samples^3, including unread replies
combinations_passed     those that pass; unread replies never do. A_rate is the quotient
changed                 changed sentences: x other than 0 among the tests' x, y and x XOR y. Under ``any``, where each
                        is asked about afresh, every asking counts; under the other rules, different x
identity                those whose vector is the complement of x; identity_rate is the quotient
sentences               changed sentences whose replies could be read
lost, both, extra       over those: entities in neither form, entities in both forms, names that are not entities
consistent, inconsistent, dependent, undecided
                        tested entities by how they are lost in changed sentences; see ``dependence``
paraphrase_missed       tested x for which no paraphrase kept the entities
labelled                labelled entities, if the sentence has labels
labelled_extracted      those in the answer
labelled_tested         those in the vectors
======================  ============================================================================================

``identity``, ``lost``, ``both`` and ``extra`` are about the deciding answer: the first sample's set under ``single``,
otherwise the most frequent set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pytest_llmprops.benchmarks.oracle.choices import Rule
from pytest_llmprops.benchmarks.oracle.entities import MOST_ENTITIES
from pytest_llmprops.benchmarks.oracle.extraction import Names, Samples, most_frequent, normalised
from pytest_llmprops.benchmarks.oracle.linear_runs import sentences_of
from pytest_llmprops.benchmarks.oracle.linear_tests import OneTest, Subject, deciding_set
from pytest_llmprops.core.linearity import complement


def answer_values(
    original: Samples, con_o: int, names: Names, subject: Subject, labels: Sequence[str] | None
) -> dict[str, float]:
    """Return the values that are known before any test.

    :param original: the replies about the original sentence, ``con_o`` of them with the answer ``names``.
    :param labels: names of the labelled entities; None if the sentence has no labels.
    """
    states = [entity.state for entity in subject.answer]
    candidates = states.count("tested")
    values: dict[str, float] = {
        "entities": len(subject.answer),
        "tested": subject.m,
        "named": sum(bool(entity.named) for entity in subject.tested),
        "not_literal": states.count("not_literal"),
        "contained": states.count("contained"),
        "no_synonym": candidates - subject.m if candidates <= MOST_ENTITIES else 0,
        "con_o": con_o,
        "samples": len(original.readings),
        "unread": original.unread,
    }
    sizes = sorted(Counter(original.sets).values(), reverse=True)
    values |= {f"con_o_{place}": size for place, size in enumerate(sizes[1:], 2)}
    if labels is not None:
        labelled = {normalised(label) for label in labels}
        values["labelled"] = len(labelled)
        values["labelled_extracted"] = len(labelled & names)
        values["labelled_tested"] = len(labelled & {entity.key for entity in subject.tested})
    return {name: float(value) for name, value in values.items()}


def measured_values(
    by_rule: Sequence[OneTest], by_any: Sequence[OneTest], subject: Subject, rule: Rule
) -> dict[str, float]:
    """Return the values of the tests.

    :param by_rule: the tests under ``rule``, which decides.
    :param by_any: the same tests over all combinations of samples.
    """
    sentences = sentences_of(by_rule, rule)
    accepted = all(test.passed for test in by_rule)
    # R(0) is the original sentence, whose entities are the answer. It has no replacements to count.
    changed = [(x, samples) for x, samples in sentences if x]
    read = [(x, names) for x, samples in changed if (names := deciding_set(samples, rule)) is not None]
    faithful = bool(changed) and all(_faithful(x, samples, subject, rule) for x, samples in sentences)
    informative = sum(test.is_informative for test in by_rule)
    values: dict[str, float] = {
        "accepted": accepted,
        "linear_not_faithful": accepted and not faithful,
        "con_rs": min((most_frequent(samples.sets)[1] for _, samples in sentences), default=0),
        "tests": len(by_rule),
        "tests_passed": sum(test.passed for test in by_rule),
        "informative_tests": informative,
        "no_informative_test": not informative,
        "combinations": sum(test.total for test in by_any),
        "combinations_passed": sum(test.passing for test in by_any),
        "changed": len(changed),
        "sentences": len(read),
        "identity": sum(subject.vector(names) == complement(x, subject.m) for x, names in read),
        "lost": sum(subject.lost(names) for _, names in read),
        "both": sum(subject.both(names) for _, names in read),
        "extra": sum(len(subject.others(names)) for _, names in read),
    }
    return {name: float(value) for name, value in values.items()}


def _faithful(x: int, samples: Samples, subject: Subject, rule: Rule) -> bool:
    """Return whether f(x) is the complement of x under the rule: for any sample, the majority, or the first sample."""
    ideal = complement(x, subject.m)
    if rule == "any":
        return any(subject.vector(names) == ideal for names in set(samples.sets))
    names = deciding_set(samples, rule)
    return names is not None and subject.vector(names) == ideal
