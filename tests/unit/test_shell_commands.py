"""The command line: quoting, refusals that say what to use instead, globs, flags."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_shell.commands import MAX_LINE, CommandError, Word, parse_command, split_words
from memory_shell.globs import has_magic, matcher, unquote
from memory_shell.options import Flags, UsageError, parse_options

_WORDS = st.lists(st.text(st.characters(exclude_characters="\0"), max_size=12), min_size=1, max_size=6)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(_WORDS)
def test_quoted_words_come_back_as_they_are(words: list[str]) -> None:
    line = "x " + " ".join(shlex.quote(word) for word in words)
    assert [word.text for word in split_words(line)] == ["x", *words]
    assert not any(word.glob for word in split_words(line) if shlex.quote(word.text) != word.text)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("grep -n 'a b' \"c d\"", ["grep", "-n", "a b", "c d"]),
        ("a'b'\"c\"\\ d", ["abc d"]),
        ('"a\\"b\\\\c\\d"', ['a"b\\c\\d']),
        ("'' \"\"", ["", ""]),
        ("a # a comment", ["a"]),
        ("a#b", ["a#b"]),
        ("~ ~/x a~ ~b", ["/", "//x", "a~", "~b"]),
        ("'cost $5' $5 a$ \"$\"", ["cost $5", "$5", "a$", "$"]),
        ("a\\\nb", ["ab"]),
        ("  a\t b\r", ["a", "b"]),
        ("", []),
        ("a\\", ["a\\"]),
    ],
)
def test_words(line: str, words: list[str]) -> None:
    assert [word.text for word in split_words(line)] == words


@pytest.mark.parametrize(
    ("line", "glob"),
    [
        ("*.md", "*.md"),
        ("'*'.md", None),
        ("\\*.md", None),
        ("'a*'*", "a\\**"),
        ("[ab]", "[ab]"),
        ("a?", "a?"),
        ("'[a]'?", "\\[a\\]?"),
    ],
)
def test_only_what_is_not_quoted_is_a_glob(line: str, glob: str | None) -> None:
    (word,) = split_words(line)
    assert word.glob == glob
    assert has_magic(glob or "") == (glob is not None)


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("grep a | head", "pipes are not available"),
        ("cat x; ls", "one command at a time"),
        ("ls && cat x", "one command at a time"),
        ("ls || ls", "one command at a time"),
        ("ls &", "one command at a time"),
        ("ls\ncat x", "one command at a time"),
        ("cat x > y", "nothing here can be written"),
        ("cat < x", "name the file as an argument"),
        ("grep $(ls) x", "run the inner command first"),
        ("grep `ls` x", "run the inner command first"),
        ('grep "$(ls)" x', "run the inner command first"),
        ("cat $HOME", "no variables"),
        ("cat ${HOME}", "no variables"),
        ("grep (a) x", "quote a pattern that holds parentheses"),
        ("grep don't x", "double quotes"),
        ('grep "a x', 'a " is not closed'),
        ("head -5 x", "cat PATH:1-20"),
        ("find . -name x", "ls -R"),
        ("rg x", "use grep"),
        ("grpe x", "did you mean grep?"),
        ("rm -rf /", "the commands are ls, cd, grep, cat, select, done"),
        ("", "empty command"),
        ("a" * (MAX_LINE + 1), "longer than"),
    ],
)
def test_what_a_shell_would_do_is_refused_with_advice(line: str, instead: str) -> None:
    with pytest.raises(CommandError) as refused:
        parse_command(line)
    assert instead in str(refused.value)
    assert len(str(refused.value)) < 300


_FLAGS = Flags(
    "t", "ab", "e", {"all": "a", "both": "b", "expr": "e", "and": "and", "with": "with"}, "usage", True, ("with",)
)


@pytest.mark.parametrize(
    ("line", "found", "operands"),
    [
        ("-ab x", [("a", ""), ("b", "")], ["x"]),
        ("x -a y", [("a", "")], ["x", "y"]),
        ("-eab -e c -ae d", [("e", "ab"), ("e", "c"), ("a", ""), ("e", "d")], []),
        ("-- -a", [], ["-a"]),
        ("- x", [], ["-", "x"]),
        ("--all --bo --expr=x --ex y --and", [("a", ""), ("b", ""), ("e", "x"), ("e", "y"), ("and", "")], []),
        ("--with=1 --with 2", [("with", "1"), ("with", "2")], []),
        ("-12 -a3b", [("C", "12"), ("a", ""), ("C", "3"), ("b", "")], []),
    ],
)
def test_flags(line: str, found: list[tuple[str, str]], operands: list[str]) -> None:
    assert parse_options(_FLAGS, split_words(line)) == (found, [Word(text) for text in operands])


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("-z", "unknown flag -z: usage"),
        ("--al=1", "takes no value"),
        ("--a", "ambiguous: --all, --and"),
        ("--alle", "did you mean --all?"),
        ("-e", "-e needs a value"),
        ("--with", "--with needs a value"),
    ],
)
def test_wrong_flags_say_what_is_wrong(line: str, fault: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_options(_FLAGS, split_words(line))
    assert fault in str(refused.value)


@pytest.mark.parametrize(
    ("glob", "name", "matches"),
    [
        ("*.md", "a.md", True),
        ("*.md", "a.mdx", False),
        ("[!a]?", "bc", True),
        ("[^a]?", "ac", False),
        ("[]a]", "]", True),
        ("[a-]", "-", True),
        ("[[:digit:]]*", "4x", True),
        ("[a", "[a", True),
        ("\\*", "*", True),
        ("\\*", "a", False),
        ("é?", "éж", True),
        ("a.b", "axb", False),
        ("*", "a\nb", True),
    ],
)
def test_globs(glob: str, name: str, matches: bool) -> None:
    assert matcher(glob)(name.encode()) is matches


def test_names_that_are_not_utf8() -> None:
    assert matcher("a*")(b"a\xff")
    assert matcher("\udcff*")("\udcff*".encode("utf-8", "surrogateescape"))  # such a pattern stands for itself
    assert unquote("a\\*\\\\b\\") == "a*\\b\\"
