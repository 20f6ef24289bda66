"""Episodes that a person can read: the commands and what they printed, turn by turn, hits and misses marked.

Marks never rest on colour alone: gold lines carry a star, hits a tick, false selections a cross, misses a circle.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from horma_rl.viewer.data import Episode, Pair
from horma_rl.viewer.markup import Html, join, tag
from horma_rl.viewer.tables import MISSING

SHOWN_CHARACTERS = 4000
"""Of one observation; the log has all of it."""
_ID = re.compile(r"[A-Za-z0-9_.-]+:\d+")
_TOOL_CALL = re.compile(r"<tool_call>.*?(?:</tool_call>|$)", re.DOTALL)
_END = re.compile(r"<\|[a-z_]+\|>")


def pair_block(
    number: int, pair: Pair, texts: Mapping[str, Mapping[str, str]], labels: tuple[str, str] = ("before", "after")
) -> Html:
    """One task with both of its episodes."""
    episode = pair.after or pair.before
    assert episode is not None, "a pair has at least one episode"
    turns = texts.get(str(episode["workspace"]), {})
    change = pair.change
    direction = "same" if not change else "better" if change > 0 else "worse"
    meta = [episode["task"], episode.get("category") or "no category", pair.why]
    sides = [("before", labels[0], pair.before), ("after", labels[1], pair.after)]
    present = [_side(kind, label, side, turns) for kind, label, side in sides if side is not None]
    return tag(
        "article",
        tag(
            "header",
            tag("p", " \u00b7 ".join(str(part) for part in meta if part), class_="eyebrow"),
            tag("h3", tag("span", f"{number}. ", class_="count"), str(episode["question"])),
            _verdict(pair, direction),
            _evidence(episode["evidence"], turns),
        ),
        tag("div", present, class_=f"sides sides-{len(present)}"),
        class_="pair",
        data_change=direction,
    )


def mark_line(line: str, evidence: frozenset[str], selected: frozenset[str]) -> Html:
    """One line of output: starred when it names gold evidence, with the ids of hits and false selections marked."""
    ids = _ID.findall(line)
    gold = any(turn_id in evidence for turn_id in ids)
    pieces: list[Html | str] = []
    at = 0
    for match in _ID.finditer(line):
        kind = id_kind(match[0], evidence, selected)
        if kind:
            pieces += [line[at : match.start()], tag("b", match[0], class_=f"id {kind}")]
            at = match.end()
    pieces.append(line[at:])
    star = tag("span", "\u2605 ", class_="star", title="a line that cites gold evidence") if gold else None
    return tag("span", star, pieces, class_="line gold" if gold else "line")


def id_kind(turn_id: str, evidence: frozenset[str], selected: frozenset[str]) -> str:
    """`hit`, `miss`, `false`, or nothing for a turn that neither matters nor was taken."""
    if turn_id in evidence:
        return "hit" if turn_id in selected else "miss"
    return "false" if turn_id in selected else ""


def reward_text(episode: Episode | None) -> str:
    """`0.50`, `not scored`, or a dash when there is no such episode."""
    if episode is None:
        return MISSING
    return "not scored" if episode.get("reward") is None else f"{episode['reward']:.2f}"


def call_text(call: Mapping[str, Any]) -> str:
    """A call as one would type it: `grep -i kiln`."""
    arguments = call.get("args", call.get("arguments", ""))
    if isinstance(arguments, Mapping):
        arguments = " ".join(str(value) for value in arguments.values())
    return f"{call.get('name', '?')} {arguments}".strip()


def free_text(response: str) -> str:
    """What the model wrote besides its calls."""
    return _END.sub("", _TOOL_CALL.sub("", response)).strip()


def _verdict(pair: Pair, direction: str) -> Html:
    if pair.before is None or pair.after is None:
        return tag("p", f"Jaccard {reward_text(pair.after or pair.before)}", class_="verdict same")
    arrow = {"better": "\u2197", "worse": "\u2198", "same": "\u2192"}[direction]
    text = f"Jaccard {reward_text(pair.before)} {arrow} {reward_text(pair.after)}"
    return tag("p", text, class_=f"verdict {direction}")


def _evidence(evidence: Sequence[str], turns: Mapping[str, str]) -> Html:
    if not evidence:
        return tag("p", "Evidence: none; the right answer is to select nothing.", class_="evidence")
    items = [tag("li", tag("b", turn_id, class_="id gold-id"), " ", turns.get(turn_id, "")) for turn_id in evidence]
    return tag("details", tag("summary", f"Gold evidence: {', '.join(evidence)}"), tag("ul", items), class_="evidence")


def _side(kind: str, label: str, episode: Episode, turns: Mapping[str, str]) -> Html:
    evidence, selected = frozenset(episode["evidence"]), frozenset(episode["selected"])
    count = len(episode["turns"])
    length = f"{count} turn" if count == 1 else f"{count} turns"
    facts = f"Jaccard {reward_text(episode)} \u00b7 {length} \u00b7 ended by {episode['stop']}"
    return tag(
        "section",
        tag("h4", tag("span", label.capitalize(), class_=f"side-name {kind}"), tag("small", facts)),
        _opening(episode.get("first_observation", "")),
        tag("ol", [_turn(turn, evidence, selected) for turn in episode["turns"]], class_="turns"),
        _selection(episode, turns),
        tag("p", f"Error: {episode['error']}", class_="error") if episode.get("error") else None,
        class_=f"side {kind}",
        aria_label=f"Episode, {label}",
    )


def _opening(text: str) -> Html | None:
    if not text:
        return None
    return tag("details", tag("summary", "What it was shown first"), tag("pre", text), class_="opening")


def _turn(turn: Mapping[str, Any], evidence: frozenset[str], selected: frozenset[str]) -> Html:
    readable = [call for call in turn["calls"] if "name" in call]
    commands = [tag("code", call_text(call), class_="command") for call in readable]
    said = free_text(turn["response"])
    if len(readable) < max(1, len(turn["calls"])):
        commands.append(tag("code", turn["response"][:600] or "(empty response)", class_="command unreadable"))
        said = ""
    thought = tag("details", tag("summary", "Model text"), tag("pre", said), class_="thought") if said else None
    return tag("li", thought, commands, _observation(turn, evidence, selected))


def _observation(turn: Mapping[str, Any], evidence: frozenset[str], selected: frozenset[str]) -> Html | None:
    text = turn["observation"]
    if not text:
        return None
    lines = [mark_line(line, evidence, selected) for line in text[:SHOWN_CHARACTERS].split("\n")]
    if len(text) > SHOWN_CHARACTERS:
        rest = f"\u2026 {len(text) - SHOWN_CHARACTERS} more characters, in the trajectory log"
        lines.append(tag("span", rest, class_="line quiet"))
    kind = "observation" if turn.get("ok", True) else "observation refused"
    return tag("div", lines, class_=kind, tabindex=0, role="group", aria_label="Output")


def _selection(episode: Episode, turns: Mapping[str, str]) -> Html:
    evidence, selected = list(episode["evidence"]), list(episode["selected"])
    groups = [
        ("hit", "\u2713", "hit", [i for i in selected if i in evidence]),
        ("false", "\u2717", "false selection", [i for i in selected if i not in evidence]),
        ("miss", "\u25cb", "missed", [i for i in evidence if i not in selected]),
    ]
    items = [
        tag(
            "li",
            tag("span", f"{mark} {label}", class_="mark"),
            tag("b", i, class_="id"),
            " ",
            turns.get(i),
            class_=kind,
        )
        for kind, mark, label, ids in groups
        for i in ids
    ]
    body = tag("ul", items) if items else tag("p", "Nothing selected, and nothing was to be found.", class_="quiet")
    none = tag("p", "Nothing selected.", class_="quiet") if items and not selected else None
    return tag("div", tag("h5", "Selection"), join(none, body), class_="selection")
