"""A read-only, sandboxed shell over a memory workspace: six verbs, one episode at a time, no torch."""
