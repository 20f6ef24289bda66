"""One process of GRPO, as `accelerate launch` starts it: `python -m horma_rl.training.worker CONFIG OUTCOME`.

CONFIG is the run's resolved config, OUTCOME the file in which the node's first process says how GRPO ended. A process
that was stopped in good order, or whose config is at fault, exits with 0: the starter tells of it, not torch's agent.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from horma_rl.errors import UserError
from horma_rl.training.alarms import AlarmError
from horma_rl.training.signals import CLUSTER_SIGNALS, Preempted, preemptible


def main(argv: list[str]) -> int:
    """Run this process's part. Exit code 1 when it failed for no expected reason, after a traceback."""
    from horma_rl.training.launch import die_with_parent

    die_with_parent()
    first = os.environ.get("LOCAL_RANK", "0") == "0"
    if not first:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - what every process would say is said once
    try:
        outcome = _outcome(lambda: _train(Path(argv[0])))
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
        return 1
    if first:
        unfinished = Path(f"{argv[1]}.tmp")
        unfinished.write_text(json.dumps(outcome), encoding="utf-8")
        os.replace(unfinished, argv[1])
    return 0


def _outcome(train: Callable[[], None]) -> dict[str, Any]:
    """How `train` ended, for the starter."""
    try:
        with preemptible():
            signal.pthread_sigmask(signal.SIG_UNBLOCK, CLUSTER_SIGNALS)  # blocked by the launcher
            train()
    except Preempted:
        return {"signal": int(CLUSTER_SIGNALS[0])}
    except KeyboardInterrupt:
        return {"signal": 2}
    except UserError as error:
        return {"user_error": str(error)}
    except AlarmError as stop:
        return {"alarm": str(stop)}
    return {"finished": True}


def _train(path: Path) -> None:
    from horma_rl.commands.train import quieten
    from horma_rl.config import load_config
    from horma_rl.training.config import TrainConfig

    config = load_config(path, [], TrainConfig)
    quieten(keep_bars=False)
    from horma_rl.training.run import train_here

    speaks = os.environ.get("RANK", "0") == "0"
    train_here(config, lambda line: print(line, file=sys.stderr, flush=True) if speaks else None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
