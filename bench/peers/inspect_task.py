"""The prompts as a task of inspect_ai, which runs this file in its own environment."""

# mypy: ignore-errors

from inspect_ai import Task, task
from inspect_ai.dataset import FieldSpec, json_dataset
from inspect_ai.scorer import match
from inspect_ai.solver import generate


@task
def prompts(file: str) -> Task:
    """Return the task with the prompts of a JSON Lines file."""
    dataset = json_dataset(file, FieldSpec(input="prompt", target="target"))
    # The scorer `exact` drops articles, and so the answer "A".
    return Task(dataset=dataset, solver=generate(), scorer=match(location="exact"))
