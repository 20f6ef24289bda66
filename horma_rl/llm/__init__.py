"""Language models behind OpenAI-compatible endpoints: what organises memory, answers from it, and judges answers."""
