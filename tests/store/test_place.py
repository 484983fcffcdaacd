"""Which directory of this node the live store goes to, and what is refused."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tic_daemon.errors import StoreError
from tic_daemon.sources.mounts import Mount
from tic_daemon.store import locks, place
from tic_daemon.store.place import choose

SHARED = f"tic-{os.getuid()}"


@pytest.fixture(autouse=True)
def _quick_and_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "locks_work", lambda directory: "nolocks" not in str(directory))

    def mount(path: Path) -> Mount:
        text = str(path.resolve())
        fstype = "nfs4" if "/nfs" in text else "tmpfs" if "/ramdisk" in text else "ext4"
        return Mount("/", fstype, fstype == "nfs4")

    monkeypatch.setattr(place, "_mount", mount)


def env(root: Path, **names: str) -> dict[str, str]:
    found = {key: str(root / name) for key, name in names.items()}
    for path in found.values():
        Path(path).mkdir(exist_ok=True)
    return {"HOME": str(root / "nfs-home"), **found}


def test_the_scheduler_s_scratch_comes_first(tmp_path: Path) -> None:
    found = choose(env=env(tmp_path, SLURM_TMPDIR="scratch", TMPDIR="tmp", XDG_STATE_HOME="state"))
    assert found.directory == tmp_path / "scratch" / SHARED
    assert found.directory.stat().st_mode & 0o777 == 0o700
    assert "$SLURM_TMPDIR" in found.reason


def test_network_homes_and_file_systems_without_locks_are_passed_over(tmp_path: Path) -> None:
    found = choose(env=env(tmp_path, SLURM_TMPDIR="nfs-scratch", TMPDIR="nolocks", XDG_STATE_HOME="state"))
    assert found.directory == tmp_path / "state" / "tic"
    assert list((tmp_path / "nfs-scratch").iterdir()) == [], "nothing is left where it was passed over"


def test_memory_is_the_last_resort_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = env(tmp_path, SLURM_TMPDIR="ramdisk", TMPDIR="tmp", XDG_STATE_HOME="nfs")
    assert choose(env=told).directory == tmp_path / "tmp" / SHARED
    real = place._why_not
    monkeypatch.setattr(place, "_why_not", lambda path: "" if "ramdisk" in str(path) else real(path) or "full")
    found = choose(env=told)
    assert found.directory == tmp_path / "ramdisk" / SHARED
    assert "memory" in found.reason


def test_what_the_user_names_is_taken_or_an_error(tmp_path: Path) -> None:
    told = env(tmp_path, SLURM_TMPDIR="scratch")
    assert choose(tmp_path / "mine", told).directory == tmp_path / "mine"
    assert choose(env={**told, "TIC_LOCAL_DIR": str(tmp_path / "also")}).directory == tmp_path / "also"
    with pytest.raises(StoreError, match=r"network file system \(nfs4\)(.|\n)*--local-dir"):
        choose(tmp_path / "nfs", told)
    with pytest.raises(StoreError, match="locks do not hold"):
        choose(tmp_path / "nolocks", told)
    with pytest.raises(StoreError, match="question mark"):
        choose(tmp_path / "a?b", told)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="local_dir"):
        choose(tmp_path / "file" / "x", told)


def test_a_directory_that_another_made_in_a_shared_one_is_refused(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o700)
    told = env(tmp_path, SLURM_TMPDIR="link", TMPDIR="open", XDG_STATE_HOME="state")
    (tmp_path / "link" / SHARED).symlink_to(victim)
    (tmp_path / "open" / SHARED).mkdir()
    (tmp_path / "open" / SHARED).chmod(0o777)
    assert choose(env=told).directory == tmp_path / "state" / "tic"
    assert list(victim.iterdir()) == []


def test_a_shared_directory_without_the_sticky_bit_is_refused(tmp_path: Path) -> None:
    told = env(tmp_path, SLURM_TMPDIR="loose", XDG_STATE_HOME="state")
    (tmp_path / "loose").chmod(0o777)
    assert choose(env=told).directory == tmp_path / "state" / "tic"
    (tmp_path / "loose").chmod(0o1777)
    assert choose(env=told).directory == tmp_path / "loose" / SHARED


def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to make one")
    told = env(tmp_path, SLURM_TMPDIR="scratch", XDG_STATE_HOME="state")
    theirs = tmp_path / "scratch" / SHARED
    theirs.mkdir(mode=0o700)
    os.chown(theirs, 12345, 12345)
    assert choose(env=told).directory == tmp_path / "state" / "tic"


def test_nothing_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "_why_not", lambda path: "full")
    with pytest.raises(StoreError, match=r"(?s)\$TMPDIR .*full; .*full") as error:
        choose(env=env(tmp_path, TMPDIR="tmp"))
    assert "--local-dir" in error.value.hint


def test_a_full_disk_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = place.shutil.disk_usage
    monkeypatch.setattr(
        place.shutil,
        "disk_usage",
        lambda path: (
            usage(path)._replace(free=1 << 20) if "scratch" in str(path) else usage(path)._replace(free=1 << 40)
        ),
    )
    assert choose(env=env(tmp_path, SLURM_TMPDIR="scratch", TMPDIR="tmp")).directory == tmp_path / "tmp" / SHARED


def granted(*_: object) -> int:
    return 0


def unknown(*_: object) -> int:
    raise OSError(errno.EINVAL, "Invalid argument")


@pytest.mark.parametrize(
    ("own_lock", "child", "works"),
    [(granted, locks._PROBE, False), (unknown, locks._PROBE, True), (unknown, "pass", False)],
    ids=["granted to another open file", "such locks are not known", "granted to a child"],
)
def test_the_lock_probe_finds_a_lying_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_lock: Callable[..., int], child: str, works: bool
) -> None:
    assert locks.locks_work(tmp_path)
    monkeypatch.setattr(locks.fcntl, "fcntl", own_lock)
    monkeypatch.setattr(locks, "_PROBE", child)
    assert locks.locks_work(tmp_path) == works
    assert list(tmp_path.iterdir()) == []
