"""A procedural generator of memories: invented lives, the conversations about them, questions with exact evidence."""

from horma_rl.benchmarks.generator.config import KINDS, GeneratorConfig, Kind
from horma_rl.benchmarks.generator.generate import Generated, Memory, generate, iterate

__all__ = ["KINDS", "Generated", "GeneratorConfig", "Kind", "Memory", "generate", "iterate"]
