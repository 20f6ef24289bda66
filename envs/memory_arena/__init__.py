"""MemoryArena (arXiv:2602.16313) as interactive environments: five domains, and the loop over their subtasks."""
