"""The names of the oracle-checker's metrics, and of the groups that they are computed for."""

from __future__ import annotations

#: the task of rows over all pairs, whatever the answer
PAIRS = "pairs"
CONSISTENCY, OWN, RANDOM = "consistency", "own_paraphrase", "random_pair"
#: number in a verdict's values -> category of table 5
CATEGORIES = {1: "AI", 2: "ĀI", 3: "AĪ", 4: "ĀĪ"}
#: metric -> number in a verdict's values, for the reasons why a "no" is not accepted
REJECTIONS = {"triangular_rate": 2, "inconsistent_rate": 3, "unreadable_rate": 4, "untested_rate": 5}
#: reasons that the paper's rule does not cover, because it needs answers to look for triangular evidence
NOT_JUDGED = (REJECTIONS["unreadable_rate"], REJECTIONS["untested_rate"])
DIRECTIONS = {
    "acceptance_rate": "higher", "faithful_acceptance_rate": "higher", "entity_acceptance_rate": "higher",
    "a_rate": "higher", "identity_rate": "higher", "label_overlap": "higher", "no_entities_rate": "none",
    "named_share": "none", "named_by_vote_rate": "none", "spearman": "none",
    "label_agreement": "higher", "yes_rate": "none", "provable_rate": "none", "acceptance_rate_paper": "higher",
    "triangular_rate": "lower", "inconsistent_rate": "lower", "unreadable_rate": "lower",
    "untested_rate": "none", "one_source_rate": "lower", "other_only_rate": "none", "parse_failure_rate": "none",
    "accepted_precision": "higher", "right_acceptance_rate": "higher", "wrong_acceptance_rate": "lower",
    "coverage": "higher", "source_revealed_rate": "lower", "null_coverage": "none",
    "null_precision": "none", "potential_rate": "none",
    "confirmed_rate": "higher", "consistency_rate": "higher",
}  # fmt: skip
