"""Starting the local server: the model is loaded, the socket bound to loopback, the token put where it can be read."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from horma_rl.errors import UserError

HOST = "127.0.0.1"


@dataclass(frozen=True)
class ServeOptions:
    """What to serve, and where. `token_file` gets the token with mode 0600. `port` 0 takes a free one."""

    model: str
    port: int
    token: str
    token_file: Path | None = None
    device: str = "auto"
    slots: int = 4
    context: int | None = None


def new_token(variable: str) -> str:
    """The token in the environment variable, or a random one."""
    return os.environ.get(variable, "").strip() or secrets.token_urlsafe(32)


def serve(options: ServeOptions, ready: Callable[[int, str], None]) -> None:
    """Serve until interrupted. `ready` is called with the port and the model's name once requests are taken.

    Raises UserError: a package is missing, the model cannot be loaded or has no chat template, or the port is taken.
    """
    try:
        import llguidance  # noqa: F401 - told here, not by the first request that needs it
        import uvicorn

        from horma_rl.llm.local.app import ChatServer
    except ImportError as error:
        raise UserError(
            f"llm: the local server needs pip install 'horma-rl[serving]' ({error.name or error} is missing)"
        ) from None
    from horma_rl.llm.local.engine import Engine
    from horma_rl.llm.local.schemas import Grammars
    from horma_rl.retrieval.backends.transformers import load_model

    with _bound(options.port) as bound:
        if options.token_file:
            write_secret(options.token_file, options.token)
        folder, name = model_folder(options.model)
        model = load_model(folder, options.device)
        tokenizer = _tokenizer(folder)
        longest = getattr(model.config.get_text_config(), "max_position_embeddings", None) or 2048
        context = min(options.context or longest, longest)
        eos = _eos_ids(model, tokenizer)
        engine = Engine(model, eos, options.slots)
        grammars = partial(Grammars, tokenizer, eos, model.config.get_text_config().vocab_size)
        app = ChatServer(engine, tokenizer, name, options.token, context, grammars).app()
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
        bound.listen(128)
        ready(bound.getsockname()[1], name)
        try:
            server.run(sockets=[bound])
        finally:
            engine.stop()


def model_folder(model: str) -> tuple[Path, str]:
    """The folder of `model` (`smollm2` or a path) and the name it is served under."""
    if model == "smollm2":
        from horma_rl.llm.local.smollm2 import smollm2

        return smollm2(), model
    folder = Path(model)
    if not (folder / "config.json").is_file():
        raise UserError(f"llm: there is no model folder at {model}: it needs a config.json (or write smollm2)")
    return folder, folder.resolve().name


def write_secret(path: Path, text: str) -> None:
    """Write `text` so that only this user can read it, at no moment otherwise; folders are made.

    Raises UserError when it cannot be written.
    """
    made = path.with_name(path.name + ".new")
    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):  # as /dev/stdout is, which would be replaced
            raise UserError(f"llm: the token is not written to {path}, which is no ordinary file: name another")
        path.parent.mkdir(parents=True, exist_ok=True)
        made.unlink(missing_ok=True)
        with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text + "\n")
        os.replace(made, path)
    except OSError as error:
        raise UserError(f"llm: the token cannot be written to {path}: {error.strerror}") from None


def _bound(port: int) -> socket.socket:
    """A socket on loopback: a taken port is told before a model is loaded."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((HOST, port))
    except (OSError, OverflowError) as error:
        bound.close()
        raise UserError(f"llm: port {port} of {HOST} cannot be had ({error}): name another with --port") from None
    return bound


def _tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    if not tokenizer.chat_template:
        raise UserError(f"llm: {folder} has no chat template: it is no instruct model")
    return tokenizer


def _eos_ids(model: Any, tokenizer: Any) -> list[int]:
    told = [model.generation_config.eos_token_id, tokenizer.eos_token_id]
    return sorted({i for ids in told if ids is not None for i in (ids if isinstance(ids, list) else [ids])})
