# SPDX-License-Identifier: Apache-2.0
"""A Slurm of one machine for tests: slurmctld, a slurmd for each of its nodes and munged, in one folder,
with keys and ports of its own. It touches nothing outside of that folder, and needs neither
systemd nor root."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "scancel", "squeue")
PATIENCE_SECONDS = 60

# Requeued jobs wait for cred_expire, 120 s by default. Jobs share the few cores there are, so that
# nodes have more than the machine.
CONFIG = """\
ClusterName=trireme-test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=bf_interval=1,sched_interval=5
KillWait=30
{nodes}
PartitionName=test Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """Why no Slurm can be started here; empty: it can."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    return f"not installed: {', '.join(absent)}; scripts/setup --tests installs them" if absent else ""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Cluster:
    """Up from its construction to close()."""

    def __init__(self, num_nodes: int = 1) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="trireme-slurm-"))
        self.folder.chmod(0o755)
        self.daemons: list[subprocess.Popen[bytes]] = []
        self.user = pwd.getpwuid(os.geteuid()).pw_name
        (self.folder / "state").mkdir()
        host = socket.gethostname().split(".")[0]
        # A single node has the host's name, so that mpirun knows it for its own.
        self.nodes = [host] if num_nodes == 1 else [f"node{i}" for i in range(num_nodes)]
        lines = [f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={free_port()} CPUs=16 State=UNKNOWN"
                 for node in self.nodes]
        (self.folder / "slurm.conf").write_text(CONFIG.format(
            host=host, folder=self.folder, user=self.user, nodes="\n".join(lines), controller_port=free_port()))
        self.environment = {"SLURM_CONF": str(self.folder / "slurm.conf")}
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def start(self) -> None:
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self.daemon("munged", "--foreground", "--force", f"--key-file={key}",
                    *(f"--{what}-file={self.folder}/munge.{what}" for what in ("log", "pid", "seed")),
                    f"--socket={self.folder}/munge.socket")
        self.wait_for((self.folder / "munge.socket").exists, "munged")
        self.daemon("slurmctld", "-D", "-c")
        self.wait_for(lambda: self.call("scontrol", "ping", check=False).returncode == 0, "slurmctld")
        for node in self.nodes:
            (self.folder / f"spool-{node}").mkdir()
            self.daemon("slurmd", "-D", "-N", node)
        self.wait_for(lambda: self.call("sinfo", "-h", "-o", "%T").stdout.split() == ["idle"], "slurmd")

    def daemon(self, *command: str) -> None:
        """It ends with the test, also where that is killed."""
        with (self.folder / f"{command[0]}.out").open("ab") as out:
            self.daemons.append(subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", *command], env={**os.environ, **self.environment}, stdin=subprocess.DEVNULL, stdout=out,
                stderr=out))

    def wait_for(self, happened: Any, what: str) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not happened():
            failed = [x.args for x in self.daemons if x.poll() is not None]
            if failed or time.monotonic() > end:
                raise AssertionError(f"{what} does not start{f'; ended: {failed}' if failed else ''}\n{self.logs()}")
            time.sleep(0.05)

    def logs(self) -> str:
        """The ends of what the daemons have written."""
        files = sorted([*self.folder.glob("*.log"), *self.folder.glob("*.out"), *self.folder.glob("munge.log")])
        return "\n".join(f"--- {file}\n{file.read_text(errors='replace')[-4000:]}" for file in files)

    def call(self, *command: object, check: bool = True, cwd: Path | None = None,
             **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([str(word) for word in command], check=check, text=True, cwd=cwd,
                              capture_output=True, env={**os.environ, **self.environment, **environment})

    def job(self, number: str) -> dict[str, str]:
        """What `scontrol show job` says: JobState, Restarts, ExitCode ..."""
        words = self.call("scontrol", "--oneliner", "show", "job", number).stdout.split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def start_jobs(self, start: bool) -> None:
        """Whether jobs that wait are started."""
        self.call("scontrol", "update", "PartitionName=test", f"State={'UP' if start else 'DOWN'}")

    def close(self) -> None:
        """Cancels what runs, and ends the daemons; the last one started first."""
        if len(self.daemons) == 2 + len(self.nodes):
            self.call("scancel", "--user", self.user, check=False)
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                print(f"{daemon.args} does not end on SIGTERM\n{self.logs()}", file=sys.stderr)
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
