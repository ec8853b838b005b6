"""The names of the oracle-checker's metrics, and of the groups that they are computed for."""

from __future__ import annotations

#: the task of rows over all pairs, whatever the answer
PAIRS = "pairs"
CONSISTENCY, OWN, RANDOM = "consistency", "own_paraphrase", "random_pair"
#: number in a verdict's values -> category of table 5
CATEGORIES = {1: "AI", 2: "ĀI", 3: "AĪ", 4: "ĀĪ"}
#: outcomes of the test of a "no" (``trust.OUTCOME_CODES``) that the paper's rule does not cover: unreadable, untested
NOT_JUDGED = (4, 5)
DIRECTIONS = {
    "acceptance_rate": "higher", "faithful_acceptance_rate": "higher", "entity_acceptance_rate": "higher",
    "a_rate": "higher", "identity_rate": "higher", "label_overlap": "higher", "no_entities_rate": "none",
    "named_share": "none", "spearman": "none",
    "label_agreement": "higher", "yes_rate": "none", "provable_rate": "none", "acceptance_rate_paper": "higher",
    "accepted_precision": "higher", "coverage": "higher", "source_revealed_rate": "lower", "null_coverage": "none",
    "null_precision": "none", "potential_rate": "none", "consistency_rate": "higher",
}  # fmt: skip
