"""Files that log lines name: checkpoints of which no directory is watched, and the dump of the flight recorder."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from tests.e2e.harness import ask, once

IMA = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
DUMP = (
    "[rank3]:[I1129 14:17:40.123456789 FlightRecorderDetail.cpp:40] Finished writing Flight Recorder debug info to {}\n"
)


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Megatron run whose step 40 is beside its log and step 20 is not, and a launch whose rank 3 dumps its trace."""
    root = tmp_path_factory.mktemp("said")
    write(root, "tic.toml", '[[source]]\npath = "**"\nzone = "UTC"\n')
    write(
        root,
        "meg/logs/rank_0.log",
        "saving checkpoint at iteration      20 to /far/ckpt in torch_dist format\n"
        "  successfully saved checkpoint from iteration      20 to /far/ckpt [ t 1/1, p 1/1 ]\n"
        "saving checkpoint at iteration      40 to ckpt in torch_dist format\n"
        "saving checkpoint at iteration      60 to /far/ckpt in torch_dist format\n",
    )
    write(root, "meg/ckpt/iter_0000040/model.distcp", "w")
    write(root, "launch/logs/rank_2.log", f"[rank2]: {IMA}\n")
    write(root, "launch/logs/rank_3.log", f"[rank3]: {IMA}\n" + DUMP.format("/tmp/not-watched/trace_of_3"))
    write(root, "launch/logs/rank_4.log", DUMP.format(root / "launch/nccl_trace_rank_4").replace("rank3", "rank4"))
    write(root, "launch/nccl_trace_rank_4", "x")
    return once(root)


def test_a_checkpoint_is_known_from_lines_where_no_directory_shows_it(store: Path) -> None:
    rows = ask(store, "SELECT step, path, complete, present, layout IS NULL FROM checkpoints ORDER BY step")
    assert [(step, complete, present, said) for step, _, complete, present, said in rows] == [
        (20, True, None, True),
        (40, False, True, False),  # its directory was seen, whatever the line says
        (60, False, None, True),
    ]
    assert rows[0][1] == "/far/ckpt" and str(rows[1][1]).endswith("meg/ckpt/iter_0000040")
    why = [row[0] for row in ask(store, "SELECT why FROM checkpoints WHERE present IS NULL ORDER BY step")]
    assert why == [
        "a log line says that it was saved, no directory of it was seen",
        "a log line says that it is being saved, no directory of it was seen",
    ]


def test_saving_is_a_movement(store: Path) -> None:
    """Step 20 and 60 are told by lines alone; the run is that of their log."""
    (moved,) = ask(
        store, "SELECT l.checkpoint_at FROM liveness l JOIN checkpoints c ON c.run_id = l.run_id WHERE c.step = 20"
    )
    assert isinstance(moved[0], datetime)


def test_the_line_that_names_a_dump_joins_it_to_the_fault_of_its_process(store: Path) -> None:
    rows = ask(
        store,
        "SELECT regexp_extract(v.path, '[^/]*$'), v.kind, v.rank, v.present, f.rank, v.why FROM fault_files v"
        " LEFT JOIN faults f ON f.rec_id = v.rec_id ORDER BY v.path DESC",
    )
    (watched, elsewhere) = sorted(rows)
    assert elsewhere == ("trace_of_3", "flight_recorder", 3, None, 3, "a line of the fault's process names it")
    # Rank 4 has no fault: another rank's is the nearest in time.
    assert watched[:4] == ("nccl_trace_rank_4", "flight_recorder", 4, True) and watched[4] in (2, 3)
    assert "it is of another rank, 4" in str(watched[5])
