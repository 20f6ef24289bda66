"""A local OpenAI-compatible server, for those who have none."""
