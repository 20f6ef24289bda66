"""A private Slurm for tests: munge, a controller and as many nodes as wished for, all on loopback, started by hand and
with all state in one folder. Needs Debian's `slurm-wlm` and `munge`."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol")


def missing_programs() -> list[str]:
    """The programs that a cluster needs and this machine lacks."""
    return [program for program in PROGRAMS if _find(program) is None]


class SlurmCluster:
    """Nodes `n1`, `n2`, ... on this machine, each with 64 pretended CPUs and `gpus` pretended GPUs.

    The partition `batch` is the default. A job of the partition `urgent` takes a node from one of `batch`: the batch
    script gets its `--signal`, has `grace_s` seconds, and Slurm queues the job again. Leaving the `with` block kills
    every job and daemon, also after a failure.
    """

    def __init__(self, nodes: int = 1, gpus: int = 4, grace_s: int = 60) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-"))
        self._nodes = [f"n{number}" for number in range(1, nodes + 1)]
        self._gpus = gpus
        self._grace_s = grace_s
        self._daemons: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> SlurmCluster:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which Slurm's commands find this cluster."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "SBATCH_"))}
        sbin = "/usr/sbin:/sbin"
        return {**kept, "SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": f"{os.environ['PATH']}:{sbin}"}

    def call(self, *command: str, check: bool = True) -> str:
        """Output of a Slurm command. Raises AssertionError with what it said when it fails."""
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=60, check=False, errors="replace"
        )
        assert done.returncode == 0 or not check, f"{command}: {done.stderr or done.stdout}"
        return done.stdout.strip()

    def state(self, job: str) -> str:
        """State of a job (`PENDING`, `RUNNING`, `COMPLETED`, ...), of an array's tasks in order with commas between;
        empty when Slurm does not know it."""
        return ",".join(sorted(self.call("squeue", "-h", "-t", "all", "-o", "%T", "-j", job, check=False).split()))

    def wait(self, job: str, states: str | tuple[str, ...], seconds: float) -> str:
        """Wait until a job, or each task of an array, is in one of `states`. Raises AssertionError after `seconds`."""
        wanted = {states} if isinstance(states, str) else set(states)
        until(lambda: set(self.state(job).split(",")) <= wanted, seconds, lambda: f"job {job} is {self.state(job)}")
        return self.state(job)

    def field(self, job: str, name: str) -> str:
        """One field of `scontrol show job`, such as `Restarts` or `ExitCode`."""
        fields = dict(part.partition("=")[::2] for part in self.call("scontrol", "-o", "show", "job", job).split())
        return fields[name]

    def logs(self) -> str:
        """What the daemons wrote."""
        return "\n".join(
            f"== {path.name}\n{path.read_text(errors='replace')[-2000:]}" for path in sorted(self.folder.glob("*.log"))
        )

    def _start(self) -> None:
        munge = self.folder / "munge"
        munge.mkdir(mode=0o700)
        (munge / "key").write_bytes(os.urandom(128))
        (munge / "key").chmod(0o600)
        files = [f"--{name}={munge / name}" for name in ("socket", "pid-file", "seed-file", "log-file")]
        self._configure()
        self._daemon("munged", "--foreground", "--force", f"--key-file={munge / 'key'}", "--num-threads=1", *files)
        until((munge / "socket").exists, 20, self.logs)
        self._daemon("slurmctld", "-D", "-c", "-i")
        for node in self._nodes:
            self._daemon("slurmd", "-D", "-N", node)
        idle = ["idle"] * len(self._nodes)
        until(lambda: self._states() == idle, 60, self.logs)

    def _states(self) -> list[str]:
        assert all(daemon.poll() is None for daemon in self._daemons), self.logs()
        return self.call("sinfo", "-h", "-N", "-p", "batch", "-o", "%t", check=False).split()

    def _configure(self) -> None:
        host, user, folder = socket.gethostname().partition(".")[0], getpass.getuser(), self.folder
        ports = _free_ports(1 + len(self._nodes))
        gres = f"Gres=gpu:{self._gpus}" if self._gpus else ""
        nodes = "\n".join(
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=64 RealMemory=1000000 {gres}"
            for node, port in zip(self._nodes, ports[1:], strict=True)
        )
        names = ",".join(self._nodes)
        (folder / "slurm.conf").write_text(f"""
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
CredType=cred/munge
CommunicationParameters=NoAddrCache,NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,sched_interval=1,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
MpiDefault=none
ReturnToService=2
KillWait=5
MinJobAge=3600
SlurmdParameters=config_overrides
GresTypes=gpu
{nodes}
PartitionName=batch Nodes={names} Default=YES MaxTime=INFINITE PriorityTier=1 GraceTime={self._grace_s} OverSubscribe=NO
PartitionName=urgent Nodes={names} MaxTime=INFINITE PriorityTier=2 PreemptMode=OFF OverSubscribe=NO
""")
        devices = [folder / f"gpu{number}" for number in range(self._gpus)]
        for device in devices:
            device.touch()
        (folder / "gres.conf").write_text("".join(f"Name=gpu File={device}\n" for device in devices))
        (folder / "state").mkdir()

    def _daemon(self, program: str, *arguments: str) -> None:
        found = _find(program)
        assert found is not None, f"{program} is not installed"
        config = [] if program == "munged" else ["-f", str(self.folder / "slurm.conf")]
        with (self.folder / f"{program}.log").open("ab") as out:
            self._daemons.append(
                subprocess.Popen([found, *arguments, *config], stdout=out, stderr=out, env=self.environment)
            )

    def _stop(self) -> None:
        """Cancel what runs, wait for it, then end the daemons, the last started first; kill what is left."""
        if len(self._daemons) > 1 and self._daemons[1].poll() is None:
            self.call("scancel", "--full", "--signal=KILL", "--user", getpass.getuser(), check=False)
            self.call("scancel", "--user", getpass.getuser(), check=False)
            deadline = time.monotonic() + 20
            while self.call("squeue", "-h", check=False) and time.monotonic() < deadline:
                time.sleep(0.2)
        for daemon in reversed(self._daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for pid in _processes_with(f"SLURM_CONF={self.folder}"):
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


def until(happened: Callable[[], bool], seconds: float, explain: Callable[[], str]) -> None:
    """Wait until `happened()`. Raises AssertionError with `explain()` after `seconds`."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, f"not after {seconds:g} s: {explain()}"
        time.sleep(0.1)


def _find(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _processes_with(setting: str) -> list[int]:
    """Processes whose environment holds `setting`: what a killed cluster's jobs left running."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            environment = path.read_bytes()
        except OSError:
            continue
        if setting.encode() in environment and int(path.parent.name) != os.getpid():
            found.append(int(path.parent.name))
    return found
