"""`horma-rl eval` with `kind: agent`: agents with memory systems in interactive environments."""
