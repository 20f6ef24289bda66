"""kill -9 at five random moments of one run, with everything on that draws or remembers: it ends as if undisturbed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from horma_rl.training.progress import read_metrics
from tests.training_parts import environment, memory, partly_trained, run_config, same_weights, untimed

REPOSITORY = Path(__file__).resolve().parents[2]


def test_five_kills_and_a_truncated_checkpoint_leave_no_trace(tmp_path: Path) -> None:
    start = tmp_path / "start"
    start.mkdir()
    partly_trained(start, memory(tmp_path / "memory"))
    config = run_config(
        tmp_path, start, grpo={"max_steps": 12, "save_steps": 2, "save_total_limit": 3}, resample_zero_variance=1,
        curriculum={"order": "evidence", "pools": 2, "steps": 6, "window": 2},
        evaluation={"limit": 2, "episodes_shown": 1, "every": 3, "during": 2},
    )  # fmt: skip
    command = [sys.executable, str(REPOSITORY / "scripts" / "check_resume.py"), str(config)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    print(done.stderr)  # the seed of the moments, when something fails
    found = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 0
    assert found["equal"]
    assert len(found["kills"]) == 5
    whole, killed = (tmp_path / "runs" / f"run_{kind}" for kind in ("whole", "killed"))
    cut = killed / "checkpoints" / found["cut"]
    assert f"warning: {cut} is damaged (optimizer.pt has " in done.stderr
    assert cut.with_name(f"{cut.name}.corrupt").is_dir()
    assert found["steps_done"]["killed"] > found["steps_done"]["whole"] == 12
    assert same_weights(killed / "model", whole / "model")
    assert not same_weights(killed / "model", start)
    rows, undisturbed = ([untimed(row) for row in read_metrics(run / "metrics.jsonl")] for run in (killed, whole))
    assert rows == undisturbed
    assert any(row["grad_norm"] > 0 for row in rows)
