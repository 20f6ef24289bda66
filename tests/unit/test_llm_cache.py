"""Replies on disk: found again, shared between processes, and never fatal."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from horma_rl.errors import UserError
from horma_rl.llm.cache import ReplyCache, request_key
from horma_rl.llm.types import Usage

WRITER = """
import sys
from pathlib import Path
from horma_rl.llm.cache import ReplyCache
from horma_rl.llm.types import Usage
cache = ReplyCache(Path(sys.argv[1]))
for n in range(100):
    cache.put(f"{sys.argv[2]}-{n}", "text", "stop", Usage(1, n))
"""


def test_a_reply_is_found_again_and_the_first_stays(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "sub" / "replies.sqlite")
    assert cache.get("k") is None
    cache.put("k", "first \x00 \U0001f600", "stop", Usage(3, 4))
    cache.put("k", "second", "length", Usage(0, 0))
    cache.close()
    assert ReplyCache(cache.path).get("k") == ("first \x00 \U0001f600", "stop", Usage(3, 4))


def test_the_key_is_of_every_parameter_and_not_of_their_order() -> None:
    one = {"model": "m", "seed": 0, "messages": [{"role": "user", "content": "hi"}]}
    assert request_key(one) == request_key(dict(reversed(one.items())))
    assert request_key(one) != request_key({**one, "seed": 1})


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name]) for name in ("a", "b")]
    assert [writer.wait() for writer in writers] == [0, 0]
    cache = ReplyCache(path)
    assert all(cache.get(f"{name}-{n}") == ("text", "stop", Usage(1, n)) for name in "ab" for n in range(100))


@pytest.mark.parametrize("content", [b"", b"this is no database", b"SQLite format 3\x00" + b"\xff" * 5000])
def test_a_damaged_file_is_set_aside(tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "replies.sqlite"
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        cache = ReplyCache(path)
        cache.put("k", "text", "stop", Usage())
    assert cache.get("k") == ("text", "stop", Usage())
    if content:
        assert (tmp_path / "replies.sqlite.damaged-1").read_bytes() == content
        assert "damaged" in caplog.text


def test_damage_while_it_is_open_is_survived(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    first, second = ReplyCache(path), ReplyCache(path)
    for n in range(200):
        first.put(f"{n}", "x" * 500, "stop", Usage())
    first.close()
    second.close()
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xee" * (len(content) - 4096)
    path.write_bytes(content)
    for cache in (first, second):
        cache.put("after", "text", "stop", Usage())
        assert cache.get("after") == ("text", "stop", Usage())
    assert len(list(tmp_path.glob("*.damaged-*"))) == 1


def test_a_place_that_cannot_be_written_is_the_users_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="no cache can be at"):
        ReplyCache(tmp_path / "file" / "replies.sqlite")
