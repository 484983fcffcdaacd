"""Manifests, sidecars and pages as values: all forms that are understood, and everything that may be wrong with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tic_daemon.results import index, layout, manifest, sidecar
from tic_daemon.results.index import Named
from tic_daemon.results.manifest import Entry

CORPUS = Path(__file__).parents[1] / "corpus" / "real_results"
A, B = "a" * 64, "b" * 64


def said(value: object, *, ours: bool = True) -> manifest.Manifest:
    return manifest.read(json.dumps(value).encode(), ours=ours)


def test_a_real_one() -> None:
    told = manifest.read((CORPUS / "step000" / "manifest.json").read_bytes(), ours=True)
    # By eye, from the file.
    assert (told.run, told.step, told.policy, told.valid) == ("grpo-tiny-a", 0, "0", 1152)
    assert told.input_sha256 == "9d987a6e8ef0fc4a83a1352ed6fb98df0a0771211479e4d67297ad161061312f"
    assert [(entry.name, entry.path, entry.size) for entry in told.entries] == [
        ("rollout_logprobs.pt", "rollout_logprobs.pt", 12969),
        ("trainer_logprobs.pt", "trainer_logprobs.pt", 12969),
        ("token_ids.pt", "token_ids.pt", 8569),
    ]
    assert told.entries[2].sha256 == "fd2f2398e626abaaabf5457ce834433863760311886664d347c05834c4bf987c"
    assert not told.problems and not told.foreign


@pytest.mark.parametrize(
    ("listed", "entries"),
    [
        ([{"path": "x.pt", "size": 3, "sha256": A.upper()}], [Entry("x.pt", "x.pt", 3, A)]),
        ([{"path": "x.pt", "bytes": 0, "digest": f"sha256:{A}"}], [Entry("x.pt", "x.pt", 0, A)]),
        (["x.pt", "y/z.pt"], [Entry("x.pt", "x.pt"), Entry("y/z.pt", "y/z.pt")]),
        ({"x.pt": A}, [Entry("x.pt", "x.pt", None, A)]),
        ({"rollout": {"path": "x.pt", "hash": f"SHA-256:{B}"}}, [Entry("rollout", "x.pt", None, B)]),
        ({"x.pt": {"size": 7}}, [Entry("x.pt", "x.pt", 7)]),
        ({"x.pt": {"size": None, "sha256": None}}, [Entry("x.pt", "x.pt")]),
        # The same twice is once.
        ([{"path": "x.pt", "sha256": A}, {"path": "x.pt", "sha256": A}], [Entry("x.pt", "x.pt", None, A)]),
    ],
)
@pytest.mark.parametrize("key", ["artifacts", "files"])
def test_forms(key: str, listed: object, entries: list[Entry]) -> None:
    told = said({key: listed})
    assert list(told.entries) == entries and not told.problems


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("", "manifest_malformed", "no valid JSON"),
        ('{"artifacts": {', "manifest_malformed", "no valid JSON"),
        ("[" * 100_000, "manifest_malformed", "nested too deeply"),
        ('{"artifacts": [], "step": ' + "9" * 5000 + "}", "manifest_malformed", "no valid JSON"),
        ("\xff\xfe", "manifest_malformed", "no valid JSON"),
        ("[]", "manifest_malformed", "no JSON object"),
        ("{}", "manifest_empty", "names no artifact"),
        ('{"artifacts": []}', "manifest_empty", "names no artifact"),
        ('{"artifacts": {"x": 3}}', "manifest_malformed", "no object"),
        ('{"artifacts": {"x": {"size": -1}}}', "manifest_malformed", "no number of bytes"),
        ('{"artifacts": {"x": {"size": true}}}', "manifest_malformed", "no number of bytes"),
        ('{"artifacts": {"x": {"size": 1e3}}}', "manifest_malformed", "no number of bytes"),
        ('{"artifacts": {"x": {"size": 9223372036854775808}}}', "manifest_malformed", "no number of bytes"),
        ('{"artifacts": {"x": {"sha256": "abc"}}}', "manifest_malformed", "64 hexadecimal digits"),
        ('{"artifacts": {"x": {"sha256": 3}}}', "manifest_malformed", "64 hexadecimal digits"),
        ('{"artifacts": {"x": {"hash": "md5:d41d8cd98f00b204e9800998ecf8427e"}}}', "manifest_malformed", "64 hex"),
        ('{"artifacts": {"x": {"path": ""}}}', "manifest_malformed", "its path"),
        ('{"artifacts": {"x": {"path": "a\\u0000b"}}}', "manifest_malformed", "its path"),
        ('{"artifacts": {"x": {"path": ["a"]}}}', "manifest_malformed", "its path"),
        ('{"artifacts": {"": {"size": 1}}}', "manifest_malformed", "its path"),
        (f'{{"artifacts": [{{"path": "x", "sha256": "{A}"}}, {{"path": "x", "sha256": "{B}"}}]}}', "manifest_malformed", "twice"),
        (f'{{"artifacts": {{"x": "{A}", "x": "{B}"}}}}', "manifest_malformed", "twice"),
        ('{"run": "a", "run": "b", "artifacts": ["x"]}', "manifest_malformed", "twice"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(text: str, kind: str, words: str) -> None:
    told = manifest.read(text.encode("latin-1"), ours=True)
    assert [problem.kind for problem in told.problems] == [kind]
    assert words in told.problems[0].detail


def test_what_is_right_beside_what_is_wrong_is_kept() -> None:
    told = said({"artifacts": {"good.pt": A, "bad.pt": {"size": "7"}, "also.pt": {"size": 3}}})
    assert [entry.path for entry in told.entries] == ["good.pt", "also.pt"]
    assert [(problem.kind, problem.subject) for problem in told.problems] == [("manifest_malformed", "bad.pt")]


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "my extension", "version": 3}',
        "// no JSON",
        "[1, 2]",
        "",
        '{"files": ["a.js", "b.js"]}',
        '{"files": {"a": {"x": 1}}}',
    ],
)
def test_a_manifest_of_another_program_is_nobodys_gap(text: str) -> None:
    assert manifest.read(text.encode(), ours=False).foreign
    assert not manifest.read(text.encode(), ours=True).foreign


def test_with_a_hash_or_size_it_is_ours_wherever_it_lies() -> None:
    for value in ({"x.pt": A}, [{"path": "x.pt", "size": 3}]):
        assert said({"files": value}, ours=False).entries == said({"files": value}).entries != ()


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.sampled_from(["path", "size", "sha256", "artifacts", "files", "run", "step", "x.pt", ""]), inner, max_size=5),
    max_leaves=30,
))  # fmt: skip
def test_no_json_is_too_odd(value: object) -> None:
    data = json.dumps({"artifacts": value}).encode()
    told = manifest.read(data, ours=True)
    assert told.entries or told.problems, "nothing named, and no word about it"
    sidecar.read(data)


@given(st.text())
def test_no_page_is_too_odd(text: str) -> None:
    index.read(text)


# --- sidecars ------------------------------------------------------------------------------------------------------

WHOLE = {
    "run_id": "r1",
    "git": {"branch": "main", "snapshot_commit": "c1", "base_sha": "b1", "patch": "p.diff", "tree_hash": "t1"},
    "image_digest": "sha256:i1",
    "command": ["python", "train.py"],
}


def test_a_whole_sidecar() -> None:
    told = sidecar.read(json.dumps(WHOLE).encode())
    assert (told.run, told.code, told.image, told.command, told.problems) == (
        "r1",
        "c1",
        "sha256:i1",
        "python train.py",
        (),
    )


def test_a_branch_name_is_no_provenance() -> None:
    (problem,) = sidecar.read(b'{"branch": "main", "commit": "unknown"}').problems
    assert problem.kind == "meta_incomplete"
    assert problem.detail.startswith("it does not say snapshot commit, base commit, patch, tree hash, image digest")
    assert problem.detail.endswith("a branch name is no provenance")


@pytest.mark.parametrize("missing", ["snapshot_commit", "base_sha", "patch", "tree_hash"])
def test_what_is_missing_is_named(missing: str) -> None:
    git = {key: value for key, value in WHOLE["git"].items() if key != missing}  # type: ignore[attr-defined]
    (problem,) = sidecar.read(json.dumps({**WHOLE, "git": git}).encode()).problems
    assert "," not in problem.detail and missing.partition("_")[0] in problem.detail


@pytest.mark.parametrize(
    ("key", "value", "leaks"),
    [
        ("WANDB_API_KEY", "0123456789abcdef", True), ("hf_token", "hf_abc", True), ("db.password", "hunter2", True),
        ("WANDB_API_KEY", "${WANDB_API_KEY}", False), ("hf_token", "env:HF_TOKEN", False), ("secret", "vault:kv/x", False),
        ("token", "<redacted>", False), ("api_key", "***", False), ("token", "", False), ("max_tokens", "8192", False),
        ("tokenizer", "qwen3", False), ("token_count", "12", False),
    ],
)  # fmt: skip
def test_a_secret_is_named_and_never_told(key: str, value: str, leaks: bool) -> None:
    problems = sidecar.read(json.dumps({**WHOLE, "env": {key: value}}).encode()).problems
    assert [problem.kind for problem in problems] == (["meta_secret"] if leaks else [])
    assert not value or value not in repr(problems)


# --- pages ---------------------------------------------------------------------------------------------------------

PAGE = """\
# Steps

Current step: 05. See [the manifest](../results/r1/manifest.json), [W&B](https://wandb.ai/x/y) and
`results/r1/a.pt`, not `a/b` nor `/v1/chat`, `--out=x/y.pt` or `results/<run-id>/x.pt`.
<!-- [old](gone/away.json) -->

```
[not a link](in/code.json)
```

| run id | gate | state | evidence |
|---|---|---|---|
| r1 | 1 | PASS | [report](01-baseline/r1/summary.md) |
| r2 | 2 | pass | results/r2/report.json, N/A |
| N/A | 3 | not run | |
| - | 4 | **PASS** | chat |
| pending review | 5 | fail | see https://wandb.ai/x |
"""


def test_what_a_page_names() -> None:
    told = index.read(PAGE)
    assert set(told.named) == {
        Named(3, "path", "../results/r1/manifest.json"),
        Named(4, "code", "results/r1/a.pt"),
        Named(4, "code", "/v1/chat"),  # known for none when it is looked for: it lies under no watched directory
        Named(13, "path", "01-baseline/r1/summary.md"),
        Named(13, "run", "r1"),
        Named(14, "run", "r2"),
        Named(14, "path", "results/r2/report.json"),
    }
    assert told.bare == ((16, "**PASS**"),)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        "[a](" * 50_000,
        "|" * 200_000,
        "`" * 200_001,
        "[[]" * 60_000,
        "<!--" * 50_000,
        "<!---->" * 300_000,
    ],
)
def test_no_page_takes_long(text: str) -> None:
    index.read(text)


# --- places --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "run"),
    [
        ("/ws/results/r1/step000/manifest.json", "r1"),
        ("/ws/results/r1/manifest.json", "r1"),
        ("/ws/results/r1", "r1"),
        ("/ws/results/manifest.json", ""),
        ("/ws/steps/01-baseline/r2/results/step3/manifest.json", "r2"),
        ("/ws/steps/01-baseline/r2/summary.md", "r2"),
        ("/ws/steps/01-baseline/INDEX.md", ""),
        ("/ws/steps/INDEX.md", ""),
        ("/ws/steps/01-baseline/r2/results/results/x.pt", "r2"),
        ("/ws/steps/01-baseline/r2/extra/step3/manifest.json", "r2"),
        ("/ws/out/manifest.json", ""),
    ],
)
def test_the_run_of_a_place(path: str, run: str) -> None:
    assert layout.run_of(path) == run


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/w/manifest.json", "manifest"), ("/w/MANIFEST.json", "manifest"), ("/w/rank0.manifest.json", "manifest"),
        ("/w/manifest_rank0.json", "manifest"), ("/w/manifests.json", ""), ("/w/manifest.json.tmp", ""),
        ("/w/.meta.json", "meta"), ("/w/run.meta.json", "meta"), ("/w/meta.json", ""),
        ("/w/token_exports/step_3/STABLE", "stable"), ("/w/weights/step_3/STABLE", ""), ("/w/STABLE", ""),
        ("/w/steps/INDEX.md", "index"), ("/w/steps/01-a/INDEX.md", "index"), ("/w/docs/INDEX.md", ""),
        ("/w/steps/01-a/r/summary.md", "summary"), ("/w/summary.md", ""),
    ],
)  # fmt: skip
def test_names_that_are_looked_at(path: str, kind: str) -> None:
    assert layout.kind_of(path) == kind
    assert layout.may_be(path.rpartition("/")[2]) or not kind
