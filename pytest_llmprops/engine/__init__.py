"""The broker (store, limits, retries, budgets, batching) and the evaluator."""
