"""What a manager has learned about filing: skills, and the library that they are kept in."""

from horma_rl.memory.skills.library import Growth, Library, load_library, save_library
from horma_rl.memory.skills.render import Rendered, estimate_tokens, render_skills
from horma_rl.memory.skills.skill import Evidence, Skill, SkillKind, free_id

__all__ = [
    "Evidence", "Growth", "Library", "Rendered", "Skill", "SkillKind", "estimate_tokens", "free_id", "load_library",
    "render_skills", "save_library",
]  # fmt: skip
