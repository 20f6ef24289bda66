"""The write path: archive what was said, then file notes about it."""

from horma_rl.memory.build import NOTES, BuildReport, NotesKind, build, build_all, read_manifest

__all__ = ["NOTES", "BuildReport", "NotesKind", "build", "build_all", "read_manifest"]
