"""The captured run's dumps through the real daemon: every stored number against a calculation by numpy alone."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from datetime import datetime, timedelta
from pathlib import Path

import duckdb
import numpy as np
import pytest

from tests.e2e.harness import ROOT, ask, here, tui
from tests.results.test_archive import CORPUS
from tests.tui.fake import FakeStore
from tests.tui.stage import Stage
from tic_daemon.store import united
from tic_tui.app import TicApp

LOG = ROOT / "samples" / "grpo-tiny-a" / "worker_raw.log"
MEANS = (
    "logprob_mae", "logprob_max", "probability_mae", "kl_k1", "kl_k2", "kl_k3", "relative_l2", "cosine", "p50", "p95", "p99",
)  # fmt: skip
Raw = dict[str, tuple[np.ndarray, np.ndarray]]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("real") / "run"
    root.mkdir()
    shutil.copy(LOG, root / "worker_raw.log")
    shutil.copytree(CORPUS, root / "results" / "grpo-tiny-a")
    here("watch", "--once", root)
    return root


def store_of(root: Path) -> Path:
    (store,) = root.glob(".tic/*/tic.duckdb")
    return store


def told(store: Path, sql: str) -> list[dict[str, object]]:
    with duckdb.connect(str(store), read_only=True) as con:
        rows = con.execute(sql)
        names = [column[0] for column in rows.description or ()]
        return [dict(zip(names, row, strict=True)) for row in rows.fetchall()]


def raw(path: Path) -> Raw:
    """The pairs of a file of torch.save by its members: storages come in the order of the dict, two a request."""
    with zipfile.ZipFile(path) as archive:
        base = archive.namelist()[0].split("/")[0]
        ids = re.findall(rb"step\d+-p\d+-s\d+", archive.read(f"{base}/data.pkl"))
        return {
            request.decode(): (
                np.frombuffer(archive.read(f"{base}/data/{2 * place}"), "<f4"),
                np.frombuffer(archive.read(f"{base}/data/{2 * place + 1}"), np.bool_),
            )
            for place, request in enumerate(ids)
        }


def test_every_number_of_the_twelve_comparisons_is_numpys(real: Path) -> None:
    rows = {int(str(row["step"])): row for row in told(store_of(real), "SELECT * FROM comparisons")}
    assert sorted(rows) == list(range(12))
    for step, row in rows.items():
        where = CORPUS / f"step{step:03}"
        rollout, trainer = raw(where / "rollout_logprobs.pt"), raw(where / "trainer_logprobs.pt")
        order = sorted(rollout)
        keep = np.concatenate([rollout[key][1] for key in order])
        a32, b32 = (np.concatenate([side[key][0] for key in order])[keep] for side in (rollout, trainer))
        a, b = a32.astype(np.float64), b32.astype(np.float64)
        d = b - a
        differ = a32.view(np.int32) != b32.view(np.int32)
        expected = {
            "logprob_mae": np.mean(np.abs(d)), "logprob_max": np.max(np.abs(d)),
            "probability_mae": np.mean(np.abs(np.exp(b) - np.exp(a))), "kl_k1": np.mean(-d), "kl_k2": np.mean(d * d / 2),
            "kl_k3": np.mean(np.expm1(d) - d), "relative_l2": np.linalg.norm(d) / np.linalg.norm(b),
            "cosine": a @ b / (np.linalg.norm(a) * np.linalg.norm(b)),
            **{f"p{share}": np.quantile(np.abs(d), share / 100, method="inverted_cdf") for share in (50, 95, 99)},
        }  # fmt: skip
        for name in MEANS:
            assert row[name] == pytest.approx(expected[name], rel=1e-12, abs=0), (step, name)
        manifest = json.loads((where / "manifest.json").read_text())
        assert row["valid_tokens"] == len(a) == manifest["valid_tokens"]
        assert row["mismatched_tokens"] == int(differ.sum()) and row["sequences"] == len(order)
        first = next(key for key in order if (rollout[key][0] != trainer[key][0])[rollout[key][1]].any())
        assert (row["first_request"], row["first_position"]) == (first, place_of_first(rollout[first], trainer[first]))
        powers = np.frexp(np.abs(d[d != 0]))[1]
        assert dict(zip(row["magnitude_powers"], row["magnitude_counts"], strict=True)) == {  # type: ignore[call-overload]
            int(power): int((powers == power).sum()) for power in np.unique(powers)
        }
        assert row["policy"] == str(manifest["policy_version"]) and row["input"] == manifest["input_sha256"]
        assert (row["sha256_a"], row["sha256_b"]) == tuple(
            manifest["artifacts"][f"{side}_logprobs.pt"]["sha256"] for side in ("rollout", "trainer")
        )
        assert (row["label"], row["reason"], row["not_evidence_because"]) == (
            None,
            "not shown: basis",
            "not shown: basis",
        )
        assert (row["admissibility"], row["standing"], row["control_group"]) == ("admissible", "clear", "cross_stack")
        report = json.loads(Path(str(row["report"])).read_text())
        assert report["observed"]["metrics"]["logprob_mae"] == row["logprob_mae"]
        assert report["identity"]["comparison"] == row["compare_id"]
    assert rows[0]["valid_tokens"] == 1152 and f"{rows[0]['logprob_mae']:.10f}" == "0.0021032277"


def place_of_first(one: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray]) -> int:
    return int(np.flatnonzero((one[0].view(np.int32) != other[0].view(np.int32)) & one[1])[0])


def test_its_sequences_strips_and_tokens(real: Path) -> None:
    store = store_of(real)
    where = CORPUS / "step000"
    rollout, trainer = raw(where / "rollout_logprobs.pt"), raw(where / "trainer_logprobs.pt")
    rows = told(store, "SELECT * FROM comparison_sequences WHERE step = 0")
    assert sorted(str(row["request"]) for row in rows) == sorted(rollout)
    for row in rows:
        (a, mask), (b, _) = rollout[str(row["request"])], trainer[str(row["request"])]
        gap = np.abs(b.astype(np.float64) - a.astype(np.float64))[mask]
        places = np.flatnonzero(mask)
        differ = (a.view(np.int32) != b.view(np.int32))[mask]
        assert (row["valid_tokens"], row["mismatched_tokens"]) == (int(mask.sum()), int(differ.sum()))
        assert row["response_length"] == len(a) and row["max_abs"] == gap.max()
        assert row["mean_abs"] == pytest.approx(gap.mean(), rel=1e-14)
        assert [row[f"p{share}"] for share in (50, 95, 99)] == [
            np.quantile(gap, share / 100, method="inverted_cdf") for share in (50, 95, 99)
        ]
        pieces = min(128, len(a))
        strip = [int(differ[places * pieces // len(a) == piece].sum()) for piece in range(pieces)]
        valid = [int((places * pieces // len(a) == piece).sum()) for piece in range(pieces)]
        assert (row["strip"], row["strip_valid"]) == (strip, valid)
    tokens = told(store, "SELECT * FROM comparison_tokens WHERE step = 0")
    for row in tokens:
        a, b = (side[str(row["request"])][0][int(str(row["position"]))] for side in (rollout, trainer))
        assert (row["value_a"], row["value_b"]) == (float(a), float(b))
        assert (row["bits_a"], row["bits_b"]) == (f"{a.view(np.uint32):08x}", f"{b.view(np.uint32):08x}")
        assert row["difference"] == float(b) - float(a)
    largest = sorted(
        (abs(float(str(row["difference"]))) for row in tokens if "largest" in str(row["why"])), reverse=True
    )
    every = np.sort(
        np.concatenate(
            [np.abs(trainer[key][0].astype(float) - rollout[key][0].astype(float))[rollout[key][1]] for key in rollout]
        )
    )
    assert largest == every[::-1][:100].tolist()
    firsts = {str(row["request"]): row["position"] for row in tokens if "first" in str(row["why"])}
    assert firsts == {key: place_of_first(rollout[key], trainer[key]) for key in rollout}


def test_a_second_look_costs_nothing_and_tells_nothing(real: Path) -> None:
    before = [
        ask(store_of(real), f"SELECT count(*), max(rec_id) FROM {name}") for name in ("comparison", "comparison_task")
    ]
    here("watch", "--once", real)
    after = [
        ask(store_of(real), f"SELECT count(*), max(rec_id) FROM {name}") for name in ("comparison", "comparison_task")
    ]
    assert after == before and before[0][0][0] == 12


def test_status_tells_of_it(real: Path) -> None:
    status = tui("status", real)
    assert "compared    12 no verdict; 0 evidence" in status.stdout, status.stdout


def test_as_of_a_copy_and_several_stores(real: Path, tmp_path: Path) -> None:
    store = store_of(real)
    first = ask(store, "SELECT min(observed_at) FROM comparison")[0][0]
    waited = ask(store, "SELECT min(observed_at) FROM comparison_task")[0][0]
    assert isinstance(first, datetime) and isinstance(waited, datetime)
    with duckdb.connect(str(store), read_only=True) as con:
        con.execute("SET VARIABLE as_of = ?", [first - timedelta(microseconds=1)])
        assert con.execute("SELECT count(*) FROM comparisons").fetchall() == [(0,)]
        assert con.execute("SELECT count(*) FROM comparison_sequences").fetchall() == [(0,)]
        # Of a quick worker the first result is told in the very commit that tells what waits: nothing had been told before.
        told = con.execute("SELECT count(*) > 0 FROM comparison_queue").fetchall()
        assert told == [(waited < first,)], "what was told to wait waited then"
    copy = tmp_path / "copy.duckdb"
    here("snapshot", copy, "--at", real)
    for view in ("comparisons", "comparison_sequences", "comparison_tokens", "control_groups", "comparison_queue"):
        assert ask(copy, f"SELECT * FROM {view} ORDER BY ALL") == ask(store, f"SELECT * FROM {view} ORDER BY ALL"), view
    con = duckdb.connect()
    con.execute(f"ATTACH '{store}' AS s (READ_ONLY)")
    con.execute("USE s")
    views = ["comparisons", "comparison_sequences", "comparison_tokens", "control_groups", "comparison_queue"]
    plan = united.plan_for(views)
    for part, reading in plan.read.items():
        con.execute(f"CREATE TEMP TABLE part_{part} AS SELECT *, 'a' AS part_store FROM ({reading.sql})")
        lowered = ", 'locked' AS admissibility" if part == "comparisons" else ""
        again = f"* REPLACE ('b' AS part_store{lowered})"
        con.execute(f"INSERT INTO part_{part} SELECT {again} FROM part_{part}")
    for name, sql in plan.make:
        con.execute(f"CREATE TEMP VIEW {name} AS {sql}")
    assert con.execute("SELECT count(*), min(admissibility) FROM temp.comparisons").fetchall() == [(12, "locked")]
    for view in ("comparison_sequences", "comparison_tokens"):
        assert (
            con.execute(f"SELECT count(*) FROM temp.{view}").fetchall()
            == con.execute(f"SELECT count(*) FROM s.{view}").fetchall()
        )
    assert con.execute("SELECT DISTINCT cross_stack FROM temp.control_groups").fetchall() == [("inconclusive",)]


async def test_the_screen_goes_down_to_the_bits_of_the_token_that_differs_most(real: Path) -> None:
    where = CORPUS / "step000"
    rollout, trainer = raw(where / "rollout_logprobs.pt"), raw(where / "trainer_logprobs.pt")
    # By numpy: the sequence with the most differing tokens, of those the one with the largest difference, and its first.
    gaps = {
        key: np.abs(trainer[key][0].astype(float) - a.astype(float))[mask].max() for key, (a, mask) in rollout.items()
    }
    counts = {
        key: int((a.view(np.int32) != trainer[key][0].view(np.int32))[mask].sum()) for key, (a, mask) in rollout.items()
    }
    request = min(rollout, key=lambda key: (-counts[key], -gaps[key]))
    place = place_of_first(rollout[request], trainer[request])
    a, b = rollout[request][0][place], trainer[request][0][place]
    app = TicApp(str(real))
    async with app.run_test(size=(120, 40)) as pilot:
        s = Stage(app, FakeStore(), pilot)
        await s.until(lambda: app.runs_view is not None and app.runs_view.runs)
        await s.press("enter", "c")
        await s.shows("comparisons 12", f"{sum(counts.values())}/1152")
        await s.press("g", "enter")
        await s.shows(f"{counts[request]}/{int(rollout[request][1].sum())}", "logprob_mae      0.0021032277")
        await s.press("enter")
        await s.shows("first that differs")
        rows = app.screen.tokens  # type: ignore[attr-defined]
        rows.move_to([row.position for row in rows.rows].index(place))
        await s.press("enter")
        await s.shows(f"request          {request}", f"{float(a)!r}  0x{a.view(np.uint32):08x}",
                      f"{float(b)!r}  0x{b.view(np.uint32):08x}", f"B - A            {float(b) - float(a)!r}",
                      f"{abs(int(a.view(np.int32)) - int(b.view(np.int32)))} representable number")  # fmt: skip
        await s.press("enter")
        await s.shows("verified: size and SHA-256 as the manifest says", "step000/rollout_logprobs.pt")
