"""A Slurm on this machine alone, for tests: its three daemons in the foreground, no systemd, no database of accounts.

python tests/slurm/cluster.py install   the packages, where they are missing (root on a Debian or Ubuntu)
python tests/slurm/cluster.py           a cluster to play with, until Ctrl-C
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PACKAGES = {"munged": "munge", "slurmctld": "slurmctld", "slurmd": "slurmd", "sbatch": "slurm-client"}
# The executor takes SLURM_CONF out of the environment of the steps inside its jobs: only this place reaches them all.
LINK = Path("/etc/slurm/slurm.conf")
CPUS, MEMORY_MB, GPUS = 4, 100_000, 2  # that the node claims; nothing holds jobs to them
CONFIG = """
ClusterName=fedloom
SlurmctldHost={node}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
EnforcePartLimits=ALL
MinJobAge=3600
DefMemPerCPU=256
ReturnToService=2
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName={node} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory_mb} Gres=gpu:{gpus}
PartitionName=main Nodes={node} Default=YES DefaultTime=60 MaxTime=1-0 State=UP
"""


def unfit() -> str | None:
    """Why no cluster can be started here; None where one can."""
    missing = [package for command, package in PACKAGES.items() if _command(command) is None]
    if missing:
        return f"Slurm is not installed ({', '.join(missing)}): make slurm-test installs it where it can"
    if os.geteuid() != 0:
        return "Slurm's daemons need root"
    if LINK.exists():
        return f"{LINK} is another cluster's"
    return None


def install() -> str | None:
    """Install what is missing; why that cannot be, or None."""
    missing = [package for command, package in PACKAGES.items() if _command(command) is None]
    if not missing:
        return None
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return f"no Slurm here ({', '.join(missing)}), and no apt-get as root to install it"
    policy = Path("/usr/sbin/policy-rc.d")
    ours = not policy.exists()
    if ours:  # otherwise the packages start daemons of their own
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
    try:
        get = ["apt-get", "-y", "-qq", "-o", "DPkg::Lock::Timeout=60"]
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        wanted = [*get, "install", "--no-install-recommends", *missing]
        for command in (wanted, [*get, "update"], wanted):
            ended = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
            if command is wanted and ended.returncode == 0:
                return None
        return f"apt-get could not install {', '.join(missing)}: {ended.stderr.strip().splitlines()[-1:]}"
    finally:
        if ours:
            policy.unlink()


def _command(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


def ask(*command: str) -> str:
    """What a command of Slurm prints; nothing where it fails."""
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=30).stdout.strip()


@contextmanager
def cluster() -> Iterator[str]:
    """A cluster while the context lasts; yields the path of its configuration.

    Raises RuntimeError, with what its daemons said, where it does not come up.
    """
    # munged insists on folders that everybody may enter, which those of tests are not.
    folder = Path(tempfile.mkdtemp(prefix="fedloom-slurm-"))
    folder.chmod(0o755)
    for name in ("munge", "state", "spool", "dev"):
        (folder / name).mkdir()
    (folder / "munge" / "key").touch(0o600)
    (folder / "munge" / "key").write_bytes(os.urandom(1024))
    config, node = folder / "slurm.conf", socket.gethostname().partition(".")[0]
    for number in range(GPUS):  # null devices: Slurm counts them, and tells jobs their numbers
        with suppress(PermissionError):
            os.mknod(folder / "dev" / f"gpu{number}", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    (folder / "gres.conf").write_text(f"NodeName={node} Name=gpu File={folder}/dev/gpu[0-{GPUS - 1}]\n")
    config.write_text(
        CONFIG.format(node=node, folder=folder, ports=_ports(), cpus=CPUS, memory_mb=MEMORY_MB, gpus=GPUS)
    )
    munge = folder / "munge"
    key = (f"--key-file={munge}/key", f"--seed-file={munge}/seed", f"--log-file={munge}/log")
    commands = [
        ["munged", "-F", f"--socket={munge}/socket", f"--pid-file={munge}/pid", *key],
        ["slurmctld", "-D", "-f", str(config)],
        ["slurmd", "-D", "-f", str(config)],
    ]
    LINK.parent.mkdir(exist_ok=True)
    LINK.unlink(missing_ok=True)  # a dangling link of a cluster that was killed
    LINK.symlink_to(config)
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            with open(folder / f"{command[0]}.log", "wb") as log:
                path = _command(command[0])
                assert path is not None
                # A group of its own: Ctrl-C is for us, and the daemons end in order.
                daemons.append(
                    subprocess.Popen([path, *command[1:]], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                     start_new_session=True)
                )  # fmt: skip
            if command[0] == "munged":
                _wait((munge / "socket").exists, daemons, folder)
        _wait(lambda: ask("sinfo", "-h", "-o", "%T") in ("idle", "mixed", "allocated"), daemons, folder)
        yield str(config)
    finally:
        # A job outlives its daemon, so that jobs go first.
        if len(daemons) == len(commands):
            ask("scancel", "--signal=KILL", f"--user={os.getuid()}")
            ask("scancel", f"--user={os.getuid()}")
            with suppress(RuntimeError):
                _wait(lambda: not ask("squeue", "-h"), daemons, folder)
        for daemon in reversed(daemons):
            daemon.terminate()
            try:
                daemon.wait(timeout=20)
            except subprocess.TimeoutExpired:
                daemon.kill()
        LINK.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)


def _ports() -> list[int]:
    """Two ports that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        return [one.getsockname()[1], other.getsockname()[1]]


def _wait(holds: Callable[[], bool], daemons: list[subprocess.Popen[bytes]], folder: Path, seconds: float = 60) -> None:
    """Until ``holds()``; RuntimeError once a daemon has ended, or after so many seconds."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end or any(daemon.poll() is not None for daemon in daemons):
            said = [line for log in folder.glob("*.log") for line in log.read_text().splitlines()[-8:]]
            raise RuntimeError("\n".join(["Slurm did not come up", *said]))
        time.sleep(0.2)


if __name__ == "__main__":
    if sys.argv[1:] == ["install"]:
        sys.exit(install())
    reason = unfit()
    if reason:
        sys.exit(reason)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with cluster() as config, suppress(KeyboardInterrupt):
        print(f"A cluster of {CPUS} CPUs and {GPUS} made-up GPUs is up ({config}); Ctrl-C ends it.", flush=True)
        signal.pause()
