"""The six verbs, where they differ from GNU's or GNU has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_shell.types import Caps
from memory_shell.verbs import execute, render
from memory_shell.workspace import Workspace

S1 = """---
title: one
sources: [D1:1, D1:2]
---
Ann: I bought a kiln. [D1:1]
Bob: The old kiln broke. [D1:2]
Ann: Pottery is fun. [D1:3]
"""


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    root: Path = tmp_path_factory.mktemp("workspace")
    log = "".join(f'{{"id":"D1:{n}","speaker":"Ann","text":"turn {n}"}}\n' for n in range(1, 6))
    for path, text in {
        "raw_logs/traj_0001.jsonl": log,
        "sessions/s1.md": S1,
        "sessions/s2.md": "---\ntitle: two\n---\nAnn: clay and kiln\nBob: nothing\n",
        "people/ann.md": "---\ntitle: Ann\nsources: [D1:3]\n---\n2023: clay [D1:3]\n",
        "people/D1:4": "a file with the name of a turn\n",
        "sessions/x:2": "one\ntwo\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / "link").symlink_to("/etc/passwd")
    return Workspace.load(root)


@pytest.mark.parametrize(
    ("cwd", "line", "goes_to"),
    [
        ("", "cd sessions", "sessions"),
        ("sessions", "cd ..", ""),
        ("sessions", "cd ../../../..", ""),
        ("sessions", "cd", ""),
        ("sessions", "cd /people/", "people"),
        ("sessions", "cd ~", ""),
        ("sessions", "cd .", "sessions"),
        ("", "cd ses*", "sessions"),
    ],
)
def test_cd(workspace: Workspace, cwd: str, line: str, goes_to: str) -> None:
    output = execute(workspace, cwd, line)
    assert (output.cwd, output.text, output.status) == (goes_to, f"/{goes_to}\n", 0)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("cd nosuch", "cd: nosuch: No such file or directory"),
        ("cd sessions/s1.md", "Not a directory: use cat"),
        ("cd link", "Not a directory"),
        ("cd a b", "too many arguments"),
        ("cd -", "no earlier directory"),
    ],
)
def test_cd_that_leads_nowhere(workspace: Workspace, line: str, says: str) -> None:
    output = execute(workspace, "", line)
    assert says in output.text
    assert (output.cwd, output.status) == (None, 1)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("cat sessions/s1.md:5", "Ann: I bought a kiln. [D1:1]\n"),
        ("cat sessions/s1.md:5-6", "Ann: I bought a kiln. [D1:1]\nBob: The old kiln broke. [D1:2]\n"),
        (
            "cat -n sessions/s1.md:6-99",
            "     6\tBob: The old kiln broke. [D1:2]\n     7\tAnn: Pottery is fun. [D1:3]\n",
        ),
        ("cat sessions/x:2", "one\ntwo\n"),
        ("cat sessions/x:2:2", "two\n"),
        ("cat sessions/s1.md:2 sessions/s2.md:2", "title: one\ntitle: two\n"),
    ],
)
def test_cat_prints_lines(workspace: Workspace, line: str, text: str) -> None:
    output = execute(workspace, "", line)
    assert (output.text, output.status) == (text, 0)
    assert output.opened


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("cat", "name a file"),
        ("cat sessions/s1.md:8", "the file has 7 lines"),
        ("cat sessions/s1.md:0", "No such file"),
        ("cat sessions/s1.md:5-4", "No such file"),
        ("cat -A sessions/s1.md", "unknown flag -A: cat takes -n"),
        ("cat link", "Is a link, and those are never opened here"),
        ("cat sessions", "Is a directory"),
    ],
)
def test_cat_says_what_is_wrong(workspace: Workspace, line: str, says: str) -> None:
    output = execute(workspace, "", line)
    assert says in output.text
    assert output.status > 0
    assert not output.opened


@pytest.mark.parametrize(
    ("cwd", "line", "ids"),
    [
        ("", "select sessions/s1.md", ("D1:1", "D1:2")),
        ("sessions", "select s1.md:7", ("D1:3",)),
        ("sessions", "select s1.md:5-6", ("D1:1", "D1:2")),
        ("", "select raw_logs/traj_0001.jsonl:4-5", ("D1:4", "D1:5")),
        ("", "select D1:3", ("D1:3",)),
        ("", "select [D1:3] D1:1", ("D1:3", "D1:1")),
        ("", "select [D1:3, D1:1]", ("D1:3", "D1:1")),
        ("", "select D1:3,D1:1", ("D1:3", "D1:1")),
        ("", "select D1:4-9", ("D1:4", "D1:5")),
        ("", "select people/ann.md:5 sessions/s1.md:5", ("D1:3", "D1:1")),
        ("", "select sessions/s1.md:5 D1:1", ("D1:1",)),
    ],
)
def test_select(workspace: Workspace, cwd: str, line: str, ids: tuple[str, ...]) -> None:
    output = execute(workspace, cwd, line)
    assert tuple(dict.fromkeys(ident for _, found in output.evidence for ident in found)) == ids
    assert len(output.targets) == len(output.evidence)
    assert output.status == 0
    assert output.text.startswith(f"selected {', '.join(ids)}")


def test_a_file_wins_over_a_turn_of_the_same_name(workspace: Workspace) -> None:
    assert execute(workspace, "", "select D1:4").evidence == (("D1:4", ("D1:4",)),)
    assert "cites no turn" in execute(workspace, "people", "select D1:4").text


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("select", "name the evidence"),
        ("select nosuch", "No such file or directory, and no turn has that id"),
        ("select D9:9", "no turn has that id"),
        ("select sessions", "Is a directory: select files or lines"),
        ("select sessions/s1.md:1", "these lines cite no turn"),
        ("select sessions/s1.md:99", "the file has 7 lines"),
        ("select sessions/s2.md", "cites no turn"),
        ("select -n D1:1", "unknown flag -n"),
        ("select link", "Is a link"),
    ],
)
def test_select_says_what_is_wrong(workspace: Workspace, line: str, says: str) -> None:
    output = execute(workspace, "", line)
    assert says in output.text
    assert output.status == 1


def test_what_can_be_selected_is_selected(workspace: Workspace) -> None:
    output = execute(workspace, "", "select nosuch D1:2")
    assert output.evidence == (("D1:2", ("D1:2",)),)
    assert output.text.endswith("selected D1:2 (1 turn)\n")
    assert output.status == 1


def test_done_takes_nothing(workspace: Workspace) -> None:
    assert execute(workspace, "", "done").done
    refused = execute(workspace, "", "done D1:1")
    assert not refused.done
    assert "use select first" in refused.text


def test_grep_without_a_path_searches_below_the_current_directory(workspace: Workspace) -> None:
    output = execute(workspace, "sessions", "grep -n kiln")
    assert output.text == (
        "s1.md:5:Ann: I bought a kiln. [D1:1]\ns1.md:6:Bob: The old kiln broke. [D1:2]\ns2.md:4:Ann: clay and kiln\n"
    )
    assert output.searched == ("sessions/s1.md", "sessions/s2.md", "sessions/x:2")
    assert output.matched == ("sessions/s1.md", "sessions/s2.md")
    assert output.visited == ("sessions",)


@pytest.mark.parametrize("vocabulary", [True, False])
@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("grep -rh -e kiln --and -e Ann sessions", ["Ann: I bought a kiln. [D1:1]", "Ann: clay and kiln"]),
        ("grep -rh -e kiln --and -e Ann --and -e clay sessions", ["Ann: clay and kiln"]),
        (
            "grep -rh -e old --and -e kiln -e fun sessions",
            ["Bob: The old kiln broke. [D1:2]", "Ann: Pottery is fun. [D1:3]"],
        ),
        ("grep -rh -e kiln --and -e nosuch sessions", []),
        ("grep -rhc -e kiln --and -e Ann sessions", ["1", "1", "0"]),
        ("grep -rhi -e KILN --and -e '\\bclay\\b' sessions", ["Ann: clay and kiln"]),
        ("grep -oh -e kiln --and -e Ann sessions/s1.md", ["Ann", "kiln"]),
        ("grep -vh -e i --and -e n sessions/s2.md", ["---", "title: two", "---"]),
    ],
)
def test_and(
    workspace: Workspace, line: str, lines: list[str], vocabulary: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not vocabulary:
        monkeypatch.setitem(workspace.index.__dict__, "vocabulary", None)
    assert execute(workspace, "", line).text.splitlines() == lines


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("grep", "name a pattern"),
        ("grep -e", "-e needs a value"),
        ("grep -P x", "unknown flag -P: grep takes"),
        ("grep --and -e x", "--and stands between two patterns"),
        ("grep -e x --and", "--and stands between two patterns"),
        ("grep -m x y", "invalid max count"),
        ("grep -A x y", "x: invalid context length argument"),
        ("grep '\\(a' x", "grep: Unmatched ( or \\("),
        ("grep '\\(a\\)\\1' x", "grep: back-references such as \\1 are not supported"),
        ("grep x link", "grep: link: Is a link, and those are never opened here"),
    ],
)
def test_grep_says_what_is_wrong(workspace: Workspace, line: str, says: str) -> None:
    output = execute(workspace, "", line)
    assert says in output.text
    assert output.status == 2


def test_a_directory_needs_a_flag_and_the_hint_says_so(workspace: Workspace) -> None:
    shown = render(execute(workspace, "", "grep kiln sessions"), Caps())
    assert shown == (
        "grep: sessions: Is a directory\n"
        "[use -r to search a directory, or no path to search all below the current one]\n"
    )


def test_an_empty_result_says_how_much_was_searched(workspace: Workspace) -> None:
    output = execute(workspace, "", "grep zebra -r sessions people")
    assert (output.text, output.status) == ("", 1)
    assert render(output, Caps()) == "[no match in 5 files searched: try -i, a shorter word, or another path]\n"


def test_what_is_not_kept_is_counted(workspace: Workspace) -> None:
    whole = execute(workspace, "", "grep -r . .", budget=None)
    some = execute(workspace, "", "grep -r . .", budget=60)
    assert whole.text.startswith(some.text)
    assert some.text.count("\n") + some.more.lines == whole.text.count("\n")
    assert some.matched == whole.matched
    assert not some.more.open_ended
    assert "left out: use -l, -m or a narrower path]" in render(some, Caps(lines=1))


def test_ls_long_is_short(workspace: Workspace) -> None:
    assert execute(workspace, "", "ls -l").text == "l 0 link\nd 2 people\nd 1 raw_logs\nd 3 sessions\n"
    size = len(S1)
    assert execute(workspace, "sessions", "ls -l s1.md").text == f"- {size} s1.md\n"


def test_a_glob_never_turns_into_a_flag(tmp_path: Path) -> None:
    (tmp_path / "-l").write_text("text\n")
    (tmp_path / "a").write_text("text\n")
    flagged = Workspace.load(tmp_path)
    assert execute(flagged, "", "ls *").text == "-l\na\n"
    assert execute(flagged, "", "cat *").text == "text\ntext\n"
    assert execute(flagged, "", "grep text *").text == "-l:text\na:text\n"


def test_nothing_that_is_typed_raises(workspace: Workspace) -> None:
    for line in (
        "\0",
        "grep \0",
        "\udcff",
        "cat \udcff",
        "grep \udcff",
        "ls \ud800",
        "cd \ud800",
        "select \ud800",
        "grep -r \ud800 .",
    ):
        output = execute(workspace, "", line)
        assert output.status > 0
        render(output, Caps()).encode("utf-8")
