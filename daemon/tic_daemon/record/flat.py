"""A file that says what a run was made of, as keys and values: resolved configurations, receipts, sidecars, manifests.

    kind_of(path, name)          what a file of this path is to the run record; "": nothing
    read(data, kind, path)       Told: what its bytes say. Never raises
    of_mapping(said, kind)       the same of a configuration that is a mapping already

    hydra     .hydra/config.yaml
    config    resolved_config.*, effective_config.*, full_config.*, hparams.yaml; config.* and config/* of a run
    recipe    recipe.*
    receipt   what a worker wrote of itself: receipt.json, rank0.receipt.json, worker_receipt_3.yaml
    meta, manifest    as results/layout.py names them: what a field of the record asks for, and pairs of arms

All of them are the launcher's word but receipts, and what stands in others under worker, workers, observed or actual.
A receipt's values are of its role: the key `role` in it, else a word in its name. A secret is replaced by a reference
to the place where it stands. Every text is from outside.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Any, Final

import yaml

from tic_daemon.credentials import PLACE, names_secret, without_credentials, without_secrets
from tic_daemon.record.fields import is_asked_for
from tic_daemon.results import layout, manifest
from tic_daemon.results.sidecar import is_reference

MAX_BYTES: Final = 4 << 20
MAX_KEYS: Final = 5000
_VALUE: Final = 500
_KEY: Final = 500
_DEPTH: Final = 100
_FORMATS: Final = r"\.(?:json|ya?ml|toml)"
_RECEIPT: Final = re.compile(rf"(?i)(?:.*[._-])?receipts?(?:[._-].*)?{_FORMATS}")
_RESOLVED: Final = re.compile(
    rf"(?i)(?:(?:resolved|effective|full)[._-]config|config[._-]resolved){_FORMATS}|hparams\.ya?ml"
)
_RECIPE: Final = re.compile(rf"(?i)recipe{_FORMATS}")
_PLAIN: Final = re.compile(rf"(?i)config{_FORMATS}")
_SOME: Final = re.compile(rf"(?i).*{_FORMATS}")
_WORKER: Final = re.compile(r"(?:workers?|observed|actual)\.(?:\d+\.)?")
_ROLES: Final = (
    ("trainer", re.compile(r"(?i)(?<![a-z])(?:trainer|actor|learner)(?![a-z])")),
    ("rollout", re.compile(r"(?i)(?<![a-z])(?:rollout|server|inference|generator|sampler|engine)(?![a-z])")),
)
_HEX: Final = re.compile(r"(?<![0-9a-zA-Z])[0-9a-f]{40}(?![0-9a-zA-Z])")
_NAMES_A_HASH: Final = re.compile(
    r"(?i)commit|sha|rev|hash|tree|base|digest|version|snapshot|code|patch|git|head|weight|id\b"
)
"""A key of W&B has 40 hexadecimal digits, as a commit has."""
PAIRS: Final = "pairs"
"""The kind of what tic.toml says of pairs of arms. Manifests declare one as `pair`, several as a list `pairs`."""
_PAIR: Final = re.compile(r"pairs?\.")
_PAIR_VALUE: Final = 20_000
_NOT_OF_A_RUN: Final = frozenset({"artifacts", "files"})


@dataclass(frozen=True, slots=True)
class Said:
    """One value. `key` as it stands there; `name` what it is matched by: lower case, with the role before it, without
    the word that says whose it is. `side` launcher | worker. `line` from 1; None: not known. `secret`: `value` is a
    reference."""

    key: str
    name: str
    side: str
    value: str
    line: int | None = None
    secret: bool = False


@dataclass(frozen=True, slots=True)
class Told:
    """What a file says. `problem`: what is wrong with it, in words; "". `run`: that it names, "" if none."""

    values: tuple[Said, ...] = ()
    problem: str = ""
    run: str = ""

    @property
    def digest(self) -> str:
        """Of what it says, wherever in the file that stands."""
        said = [(one.key, one.side, one.value) for one in self.values]
        return hashlib.sha256(json.dumps([said, self.problem]).encode("utf-8", "backslashreplace")).hexdigest()


def may_be(name: str) -> bool:
    """Whether a file of this name may be one, wherever it lies. Sidecars and manifests are found otherwise."""
    return _SOME.fullmatch(name) is not None


def kind_of(path: str) -> str:
    """What a file of this path is to the run record; "": nothing."""
    above, _, name = path.rpartition("/")
    if (kind := layout.kind_of(path)) in (layout.META, layout.MANIFEST):
        return kind
    directory = above.rpartition("/")[2]
    if directory == ".hydra":
        return "hydra" if name in ("config.yaml", "config.yml") else ""
    if "/wandb/" in path or not _SOME.fullmatch(name):
        return ""
    for pattern, kind in ((_RECEIPT, "receipt"), (_RESOLVED, "config"), (_RECIPE, "recipe")):
        if pattern.fullmatch(name):
            return kind
    run_dir = layout.run_dir_of(path)
    if run_dir and (above == f"{run_dir}/config" or (above == run_dir and _PLAIN.fullmatch(name))):
        return "config"
    return ""


def read(data: bytes, kind: str, path: str) -> Told:
    """What the bytes of such a file say."""
    if len(data) > MAX_BYTES and kind != layout.MANIFEST:
        return Told(problem=f"longer than {MAX_BYTES >> 20} MiB: not read")
    if kind == layout.MANIFEST and manifest.read(data, ours=bool(layout.run_dir_of(path))).foreign:
        return Told()  # of some other program
    text = data.decode("utf-8", "backslashreplace")
    name = path.rpartition("/")[2]
    try:
        found = _parsed(text, name.rpartition(".")[2].lower(), manifest=kind == layout.MANIFEST)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
        return Told(problem=f"it cannot be read: {why[:200]}")
    if found is None:
        return Told(problem="no table of keys and values")
    told = _told(found, kind, name)
    if kind not in (layout.MANIFEST, layout.META):
        return told
    # A run may have one for each of its steps: of them only what a field asks for is kept, and what declares pairs.
    return replace(told, values=tuple(one for one in told.values if one.secret or _wanted(one.name)))


def of_mapping(said: Mapping[str, Any], kind: str, name: str) -> Told:
    """What a configuration says that is a mapping already. `name`: where it stands, for references."""
    return _told([(key, value, None) for key, value in _of_value("", dict(said), 0)], kind, name)


def with_bytes(told: Told, data: bytes) -> Told:
    """The same with what the file itself is: evidence names a receipt by the hash of its bytes."""
    own = {"#sha256": hashlib.sha256(data).hexdigest(), "#size": str(len(data))}
    return replace(told, values=(*told.values, *(Said(key, key, "worker", value) for key, value in own.items())))


def _wanted(name: str) -> bool:
    return _PAIR.match(name) is not None or is_asked_for(name)


_Flat = list[tuple[str, Any, int | None]]


def _parsed(text: str, ending: str, *, manifest: bool) -> _Flat | None:
    """(key, value, line) of all that is no table, in order; None: it holds no table. A text is a value as it stands."""
    if ending == "toml":
        table = tomllib.loads(text)
        lines = _toml_lines(text)
        return [(key, value, lines.get(key)) for key, value in _of_value("", table, 0)]
    if ending == "json":
        said = json.loads(text)
        if not isinstance(said, dict):
            return None
        if manifest:
            said = {key: value for key, value in said.items() if key not in _NOT_OF_A_RUN}
        lines = _json_lines(text)
        return [(key, value, lines.get(key.rpartition(".")[2])) for key, value in _of_value("", said, 0)]
    _require_shallow(text)
    node = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    # References may name one table a billion times: what is over the limit is not even made.
    return list(islice(_of_node("", node, 0), MAX_KEYS + 1)) if isinstance(node, yaml.MappingNode) else None


def _require_shallow(text: str) -> None:
    """Raises ValueError for YAML that is nested so deeply that reading it would end the process."""
    depth = deepest = 0
    for char in text:
        if char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "]}":
            depth = max(0, depth - 1)
    columns = max((len(match[0]) for match in re.finditer(r"^[ \t?:-]*", text, re.MULTILINE)), default=0)
    if deepest > _DEPTH or columns > 4 * _DEPTH:
        raise ValueError("nested too deeply")


def _of_value(prefix: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """Leaves of a JSON-like value with their full keys. A list of plain values is one leaf."""
    if depth > _DEPTH:
        raise ValueError("nested too deeply")
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from _of_value(f"{prefix}.{key}" if prefix else str(key), below, depth + 1)
    elif isinstance(value, list) and any(isinstance(one, Mapping) for one in value):
        for number, below in enumerate(value):
            yield from _of_value(f"{prefix}.{number}", below, depth + 1)
    else:
        yield prefix, value


def _of_node(prefix: str, node: yaml.Node, depth: int) -> Iterator[tuple[str, Any, int | None]]:
    if depth > _DEPTH:
        raise ValueError("nested too deeply")
    if isinstance(node, yaml.MappingNode):
        for key, below in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else "?"
            yield from _of_node(f"{prefix}.{name}" if prefix else name, below, depth + 1)
    elif isinstance(node, yaml.SequenceNode) and any(isinstance(one, yaml.MappingNode) for one in node.value):
        for number, below in enumerate(node.value):
            yield from _of_node(f"{prefix}.{number}", below, depth + 1)
    else:
        yield prefix, _plain(node, count(1)), node.start_mark.line + 1


def _plain(node: yaml.Node, made: Iterator[int]) -> Any:
    if next(made) > MAX_KEYS:
        raise ValueError(f"a list of more than {MAX_KEYS} values")
    if isinstance(node, yaml.SequenceNode):
        return [_plain(one, made) for one in node.value]
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): _plain(below, made) for key, below in node.value}
    if node.tag == "tag:yaml.org,2002:bool":
        return str(node.value).lower() in ("true", "yes", "on")
    if node.tag == "tag:yaml.org,2002:null":
        return None
    if node.tag == "tag:yaml.org,2002:int" and re.fullmatch(r"[-+]?(?:0|[1-9]\d{0,18})", node.value):
        return int(node.value)
    return node.value


def _json_lines(text: str) -> dict[str, int]:
    """By the last level of a key the line that it stands on, if it stands there once."""
    lines: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        for hit in re.finditer(r'"([^"\\]{1,200})"\s*:', line):
            lines[hit[1]] = 0 if hit[1] in lines else number
    return {key: number for key, number in lines.items() if number}


def _toml_lines(text: str) -> dict[str, int]:
    """By full key the line that it stands on, for keys that are written plainly."""
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\s*([\w.-]+)\s*\]", line):
            table = f"{header[1]}."
        elif line.lstrip().startswith("[["):
            table = "\0"  # keys of a list of tables hold their number
        elif entry := re.match(r"\s*([\w.-]+)\s*=", line):
            lines.setdefault(f"{table}{entry[1]}", number)
    return lines


def _told(found: _Flat, kind: str, name: str) -> Told:
    tops = {key.lower(): value for key, value, _ in found if "." not in key}
    role = _role(str(tops.get("role", "")), name) if kind == "receipt" else ""
    run = next((str(tops[key]) for key in ("run_id", "run") if isinstance(tops.get(key), str) and tops[key]), "")
    values = []
    for key, value, line in found[:MAX_KEYS]:
        key = key[:_KEY]  # noqa: PLW2901
        secret = _holds_secret(key, value)
        worker = _WORKER.match(key.lower())
        matched = key.lower()[worker.end() :] if worker else key.lower()
        if role and not matched.startswith(("trainer.", "rollout.")):
            matched = f"{role}.{matched}"
        values.append(
            Said(
                key,
                matched,
                "worker" if kind == "receipt" or worker else "launcher",
                f"[secret: see {key} in {name}]"[:_VALUE] if secret else as_text(value, _limit(matched)),
                line,
                secret,
            )
        )
    more = f"more than {MAX_KEYS} keys, of which the first were kept" if len(found) > MAX_KEYS else ""
    return Told(tuple(values), more, run[:_VALUE])


def _holds_secret(key: str, value: Any) -> bool:
    if isinstance(value, str) and is_reference(value):
        return without_secrets(value) != value
    if names_secret(key) and value not in (None, "", [], 0) and not isinstance(value, bool):
        return True
    plain = as_text(value)
    if _HEX.search(plain) and not _NAMES_A_HASH.search(key):
        return True
    return value == PLACE or as_text(without_credentials(value, key)) != plain


def _limit(name: str) -> int:
    return _PAIR_VALUE if _PAIR.match(name) else _VALUE


def as_text(value: Any, limit: int = _VALUE) -> str:
    """A value as one text of bounded length: a longer one ends with its hash, so that two that differ stay so."""
    if isinstance(value, str):
        text = value
    elif isinstance(value, bool) or value is None:
        text = json.dumps(value)
    else:
        text = json.dumps(value, default=str, ensure_ascii=False)
    if len(text) <= limit:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
    return f"{text[: limit - 80]}... sha256:{digest}"


def _role(said: str, name: str) -> str:
    for text in (said, name):
        for role, pattern in _ROLES:
            if pattern.search(text.replace("_", " ")):
                return role
    return ""
