"""Judgements of a model, a contact or a run: advice, explanations, diagnoses, comparisons, validation."""
