"""Question answering over memory: contexts, a budgeted actor, answer metrics and judges."""
