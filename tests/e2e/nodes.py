"""A small cluster on one machine: each node is a network namespace with its own host name, on one bridge.

All nodes see the same files, as on a shared file system, and reach each other by address only. Nothing of the cluster
stays when the context ends. Needs root and iproute2; `available()` says what is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from pathlib import Path
from types import TracebackType

from tests.e2e.harness import environment

PREFIX = "10.213.7"


def available() -> str:
    """Why no cluster can be made here; "" if it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program in ("ip", "unshare", "hostname"):
        if shutil.which(program) is None:
            return f"the program {program} is missing"
    probe = f"tic-probe-{uuid.uuid4().hex[:6]}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"no network namespaces here: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "delete", probe], check=False)
    return ""


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"


class Node:
    """One host of a cluster."""

    def __init__(self, cluster: Cluster, number: int, name: str) -> None:
        self.name = name
        self.address = f"{PREFIX}.{number}"
        self._namespace = f"{cluster.tag}-{number}"
        self._outside, self._inside = f"{cluster.tag}o{number}", f"{cluster.tag}i{number}"
        _ip("netns", "add", self._namespace)
        _ip("link", "add", self._outside, "type", "veth", "peer", "name", self._inside)
        _ip("link", "set", self._outside, "master", cluster.tag, "up")
        _ip("link", "set", self._inside, "netns", self._namespace)
        _ip("-n", self._namespace, "address", "add", f"{self.address}/24", "dev", self._inside)
        _ip("-n", self._namespace, "link", "set", self._inside, "up")
        _ip("-n", self._namespace, "link", "set", "lo", "up")
        _ip("-n", self._namespace, "route", "add", "default", "dev", self._inside)

    def argv(self, *words: str | Path) -> list[str]:
        """The command line that runs `words` on this node."""
        here = f'hostname {self.name} && exec "$@"'
        return ["ip", "netns", "exec", self._namespace, "unshare", "--uts", "sh", "-c", here, "sh", *map(str, words)]

    def python(self, module: str, *words: str | Path) -> list[str]:
        """The command line of one of our programs on this node."""
        return self.argv(sys.executable, "-m", module, *words)

    def run(self, module: str, *words: str | Path, timeout: float = 240) -> subprocess.CompletedProcess[str]:
        """One of our commands to its end."""
        return subprocess.run(
            self.python(module, *words), env=environment(), capture_output=True, text=True, timeout=timeout,
            check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def cut_off(self) -> None:
        """Unplugs the node: what is sent to it vanishes, as behind a firewall that drops."""
        _ip("link", "set", self._outside, "nomaster")

    def plug_in(self, cluster: Cluster) -> None:
        """Undoes `cut_off`."""
        _ip("link", "set", self._outside, "master", cluster.tag)

    def remove(self) -> None:
        subprocess.run(["ip", "netns", "delete", self._namespace], capture_output=True, check=False)
        subprocess.run(["ip", "link", "delete", self._outside], capture_output=True, check=False)


class Cluster:
    """The bridge and its nodes; a context manager."""

    def __init__(self, *names: str) -> None:
        self.tag = f"tic{uuid.uuid4().hex[:5]}"
        self.nodes: list[Node] = []
        self._names = names

    def __enter__(self) -> list[Node]:
        _ip("link", "add", self.tag, "type", "bridge")
        _ip("link", "set", self.tag, "up")
        try:
            for number, name in enumerate(self._names, 1):
                self.nodes.append(Node(self, number, name))
        except BaseException:
            self._remove()
            raise
        return self.nodes

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        for node in self.nodes:
            node.remove()
        subprocess.run(["ip", "link", "delete", self.tag], capture_output=True, check=False)
