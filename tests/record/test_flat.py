"""Configurations, receipts and sidecars as keys and values: lines, sides, roles, secrets, and files that mean harm."""

from __future__ import annotations

import json

import pytest

from tic_daemon.record import flat

HEX = "0123456789abcdef0123456789abcdef01234567"


def values(text: str, kind: str, path: str) -> dict[str, tuple[str, str, int | None]]:
    told = flat.read(text.encode(), kind, path)
    assert not told.problem
    return {one.name: (one.value, one.side, one.line) for one in told.values}


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/j/.hydra/config.yaml", "hydra"), ("/j/.hydra/overrides.yaml", ""), ("/j/resolved_config.toml", "config"),
        ("/j/config.yaml", ""), ("/j/results/r1/config.yaml", "config"), ("/j/steps/01-base/r1/config/train.json", "config"),
        ("/j/steps/01-base/r1/results/train.json", ""), ("/j/configs/train.yaml", ""), ("/j/recipe.toml", "recipe"),
        ("/j/receipt.json", "receipt"), ("/j/rank0.receipt.json", "receipt"), ("/j/worker_receipt_3.yaml", "receipt"),
        ("/j/receipts.txt", ""), ("/j/.meta.json", "meta"), ("/j/results/r1/manifest.json", "manifest"),
        ("/j/wandb/run-1/files/resolved_config.yaml", ""), ("/ckpt/config.json", ""),
    ],
)  # fmt: skip
def test_what_a_file_is(path: str, kind: str) -> None:
    assert flat.kind_of(path) == kind


def test_yaml_json_and_toml_say_the_same_with_lines() -> None:
    yaml = "a:\n  b: 1\n  on: true\nlist: [1, 2]\nempty: null\nname: bf16\nn: 007\n"
    assert values(yaml, "config", "/x/resolved_config.yaml") == {
        "a.b": ("1", "launcher", 2), "a.on": ("true", "launcher", 3), "list": ("[1, 2]", "launcher", 4),
        "empty": ("null", "launcher", 5), "name": ("bf16", "launcher", 6), "n": ("007", "launcher", 7),
    }  # fmt: skip
    told = '{\n"a": {"b": 1,\n "on": true},\n"list": [1, 2], "B": "x"}'
    assert values(told, "config", "/x/resolved_config.json") == {
        "a.b": ("1", "launcher", 2), "a.on": ("true", "launcher", 3), "list": ("[1, 2]", "launcher", 4),
        "b": ("x", "launcher", 4),
    }  # fmt: skip
    toml = 'top = 1\n[a]\nb = 1\non = true\n[a.c]\nd = "x"\n[[e]]\nf = 1\n'
    assert values(toml, "config", "/x/resolved_config.toml") == {
        "top": ("1", "launcher", 1), "a.b": ("1", "launcher", 3), "a.on": ("true", "launcher", 4),
        "a.c.d": ("x", "launcher", 6), "e.0.f": ("1", "launcher", None),
    }  # fmt: skip


def test_receipts_are_the_workers_word_and_of_a_role() -> None:
    told = '{"role": "actor", "torch": "2.9.0", "rollout": {"tp": 2}}'
    assert values(told, "receipt", "/x/receipt.json") == {
        "trainer.role": ("actor", "worker", 1), "trainer.torch": ("2.9.0", "worker", 1), "rollout.tp": ("2", "worker", 1)
    }  # fmt: skip
    assert set(values('{"torch": "2.9.0"}', "receipt", "/x/rollout_rank3.receipt.json")) == {"rollout.torch"}
    assert set(values('{"torch": "2.9.0"}', "receipt", "/x/receipt.json")) == {"torch"}
    # Elsewhere the launcher speaks, but where it is said whose word it is.
    found = values(
        '{"commit": "abc", "worker": {"torch": "2"}, "workers": [{"cuda": "12.9"}]}', "meta", "/x/.meta.json"
    )
    assert {name: side for name, (_, side, _) in found.items()} == {
        "commit": "launcher", "torch": "worker", "cuda": "worker"
    }  # fmt: skip


def test_what_a_manifest_says_of_its_artifacts_is_left_out() -> None:
    said = {
        "commit": "abc",
        "step": 3,
        "artifacts": {"x.pt": "0" * 64},
        "files": [{"path": "y"}],
        "pair": {"name": "p", "a": ["r1"]},
    }
    told = values(json.dumps(said), "manifest", "/r/manifest.json")
    assert set(told) == {"commit", "pair.name", "pair.a"}, (
        "there may be one for each step: only what is asked for is kept"
    )
    foreign = {"commit": "abc", "name": "a web page"}
    assert values(json.dumps(foreign), "manifest", "/r/manifest.json") == {}
    assert set(values(json.dumps(foreign), "manifest", "/r/results/r1/manifest.json")) == {"commit"}


@pytest.mark.parametrize(
    ("key", "value", "secret"),
    [
        ("wandb.api_key", HEX, True), ("hf_token", "abc", True), ("db.password", "pw1", True), ("note", f"key {HEX}", True),
        ("commit", HEX, False), ("git.sha", HEX, False), ("max_tokens", 5, False), ("tokenizer", "/m/t", False),
        ("command", "WANDB_API_KEY=abcdef99 python t.py", True), ("command", "python t.py --max-tokens 9", False),
        ("url", "https://me:pw@host/x", True), ("api_key", "${WANDB_API_KEY}", False), ("api_key", "env:KEY", False),
        ("api_key", None, False), ("key_file", "-----BEGIN RSA PRIVATE KEY-----\nabc", True), ("h", "hf_" + "a" * 30, True),
        ("secrets", ["aaaaaaaaaa"], True),
    ],
)  # fmt: skip
def test_a_secret_is_replaced_by_where_it_stands(key: str, value: object, secret: bool) -> None:
    node: object = value
    for part in reversed(key.split(".")):
        node = {part: node}
    told = flat.read(json.dumps(node).encode(), "config", "/x/resolved_config.json")
    (one,) = told.values
    assert one.secret is secret
    assert (one.value == f"[secret: see {key} in resolved_config.json]") is secret
    if not secret and isinstance(value, str):
        assert one.value == value


def test_long_values_stay_different() -> None:
    one, other = flat.as_text("a" * 1000), flat.as_text("a" * 999 + "b")
    assert one != other and len(one) < 600


@pytest.mark.parametrize(
    ("data", "path"),
    [
        (b"a: [" * 1000, "/x/resolved_config.yaml"), (b"[" * 100_000, "/x/resolved_config.yaml"),
        (b"- " * 50_000 + b"a", "/x/resolved_config.yaml"), (b'{"a":' * 100_000, "/x/resolved_config.json"),
        (b"a = ", "/x/resolved_config.toml"), (b"\x00\xff", "/x/resolved_config.yaml"), (b"[1, 2]", "/x/resolved_config.json"),
        (b"x: &x [*x]\ny: !!python/object:os.system {}\n: :", "/x/resolved_config.yaml"), (b"", "/x/resolved_config.json"),
        (b"x" * (flat.MAX_BYTES + 1), "/x/resolved_config.yaml"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_read_say_why(data: bytes, path: str) -> None:
    told = flat.read(data, "config", path)
    assert told.problem and not told.values


def test_a_bomb_of_references_is_cut() -> None:
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{n}: &a{n} {{{', '.join(f'k{i}: *a{n - 1}' for i in range(9))}}}" for n in range(1, 9)]
    told = flat.read("\n".join(lines).encode(), "config", "/x/resolved_config.yaml")
    assert len(told.values) <= flat.MAX_KEYS and "kept" in told.problem
