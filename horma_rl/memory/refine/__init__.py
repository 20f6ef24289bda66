"""Contrastive refinement: a manager that learns to file from the tasks on which raw history and memory disagree."""
