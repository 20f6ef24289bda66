"""The manager that files notes with a language model: it proposes operations, and each is checked before it counts."""
