"""Records of a `.wandb` file: what the client wrote, from the bytes of a frame.

    parse(payload) -> the parsed message and its kind ("history", "run", ...); "" for kinds that are not read
    values(message.history) -> the values of a history row
    change_tree, texts   configuration as a tree, summary as JSON texts by full key

The messages are those of the client's wandb_internal.proto, declared here with the fields that are read. What else a
record holds is passed over unparsed. So reading needs neither the client nor its half second of import, and a client of
another version changes nothing: fields that are not known are ignored, as protobuf has it. Tests hold the numbers
against the client's own.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from math import isfinite
from typing import Any, Final

from tic_daemon.wandb.history import FRACTION, STEP_KEY, Value, canonical_json, value_of, value_of_text

_STRING, _BOOL, _INT32, _INT64, _SINT64, _DOUBLE, _ENUM_NUMBER = (
    "string",
    "bool",
    "int32",
    "int64",
    "sint64",
    "double",
    "int32",
)

# Message: field, number, type; `*` before a type: repeated; `?`: of the message's oneof.
MESSAGES: Final[dict[str, tuple[tuple[str, int, str], ...]]] = {
    "Record": (
        ("history", 2, "?HistoryRecord"), ("summary", 3, "?SummaryRecord"), ("config", 5, "?ConfigRecord"),
        ("telemetry", 11, "?TelemetryRecord"), ("run", 17, "?RunRecord"), ("exit", 18, "?RunExitRecord"),
        ("header", 21, "?HeaderRecord"), ("preempting", 23, "?RunPreemptingRecord"),
        ("environment", 26, "?EnvironmentRecord"),
    ),
    "HistoryRecord": (("item", 1, "*HistoryItem"), ("step", 2, "HistoryStep")),
    "HistoryItem": (
        ("key", 1, _STRING), ("nested_key", 2, "*string"), ("none", 3, "?" + _ENUM_NUMBER), ("boolean", 4, "?bool"),
        ("integer", 5, "?sint64"), ("number", 6, "?double"), ("text", 7, "?string"), ("json", 8, "?string"),
        ("value_json", 16, _STRING),
    ),
    "HistoryStep": (("num", 1, _INT64),),
    "SummaryRecord": (("update", 1, "*SummaryItem"), ("remove", 2, "*SummaryItem")),
    "SummaryItem": (("key", 1, _STRING), ("nested_key", 2, "*string"), ("value_json", 16, _STRING)),
    "ConfigRecord": (("update", 1, "*ConfigItem"), ("remove", 2, "*ConfigItem")),
    "ConfigItem": (("key", 1, _STRING), ("nested_key", 2, "*string"), ("value_json", 16, _STRING)),
    "RunRecord": (
        ("run_id", 1, _STRING), ("entity", 2, _STRING), ("project", 3, _STRING), ("config", 4, "ConfigRecord"),
        ("summary", 5, "SummaryRecord"), ("display_name", 8, _STRING), ("starting_step", 14, _INT64),
        ("start_time", 17, "Timestamp"), ("resumed", 18, _BOOL), ("telemetry", 19, "TelemetryRecord"),
        ("git", 21, "GitRepoRecord"), ("forked", 22, _BOOL),
    ),
    "RunExitRecord": (("exit_code", 1, _INT32), ("runtime", 2, _INT32), ("not_complete", 3, _BOOL)),
    "RunPreemptingRecord": (),
    "HeaderRecord": (("version_info", 1, "VersionInfo"),),
    "VersionInfo": (("producer", 1, _STRING),),
    "TelemetryRecord": (("feature", 3, "Feature"), ("cli_version", 5, _STRING)),
    "Feature": (("offline", 4, _BOOL), ("shared_mode", 67, _BOOL)),
    "EnvironmentRecord": (("git", 9, "GitRepoRecord"), ("writer_id", 199, _STRING)),
    "GitRepoRecord": (("commit", 2, _STRING),),
    "Timestamp": (("seconds", 1, _INT64), ("nanos", 2, _INT32)),
}  # fmt: skip
_PACKAGE: Final = "tic_wandb"


class RecordError(ValueError):
    """The bytes are no record."""


def parse(payload: bytes) -> tuple[str, Any]:
    """(kind, message of that kind); ("", None) for a record of a kind that is not read.

    Raises:
        RecordError: they are no record of the client.
    """
    record_class, error_class = _classes()
    record = record_class()
    try:
        record.ParseFromString(payload)
    except error_class as error:
        raise RecordError(str(error)) from error
    kind = record.WhichOneof("choice")
    return (kind, getattr(record, kind)) if kind else ("", None)


def values(history: Any) -> list[Value]:
    """The values of a history record, `_step` among them.

    The client takes media apart as it does all that nests; they are put together again, as the server gives them back.
    """
    found = []
    media: set[str] = set()
    for item in history.item:
        nested = item.nested_key
        if len(nested) == 1:
            key = nested[0]
        else:
            key = key_of(item)
            if len(nested) > 1 and nested[-1] == "_type":
                media.add(key[: -len("._type")])
        text = item.value_json
        # Most values are fractions: here, and not in value_of_text, as a call costs as much as the rest.
        if FRACTION(text) and isfinite(number := float(text)):
            found.append(tuple.__new__(Value, (key, number, None, "number")))
        else:
            found.append(value_of_text(key, text) if text else _typed(key, item))
    if history.HasField("step") and all(value.key != STEP_KEY for value in found):
        found.append(value_of(STEP_KEY, history.step.num))
    return _put_together(history, found, media) if media else found


def _put_together(history: Any, found: list[Value], media: set[str]) -> list[Value]:
    outermost = {name for name in media if not any(name.startswith(f"{other}.") for other in media)}
    trees: dict[str, dict[str, Any]] = {}
    rest = []
    for value, item in zip_longest(found, history.item):
        path = list(item.nested_key) if item is not None else []
        whole = next((depth for depth in range(1, len(path)) if ".".join(path[:depth]) in outermost), 0)
        if not whole:
            rest.append(value)
            continue
        tree = trees.setdefault(".".join(path[:whole]), {})
        if not _put(tree, path[whole:], loaded(item.value_json) if item.value_json else _plain(value)):
            rest.append(value)
    return rest + [Value(key, None, canonical_json(tree), "media") for key, tree in trees.items()]


def _plain(value: Value) -> Any:
    if value.kind in ("json", "media", "null"):
        return loaded(value.text or "null")
    if value.kind == "bool":
        return bool(value.number)
    if value.kind == "int":
        return int(value.text) if value.text else int(value.number or 0)
    return value.text if value.number is None else value.number


def key_of(item: Any) -> str:
    """The full key of an item, levels joined by dots."""
    nested = item.nested_key
    if len(nested) == 1:
        return str(nested[0])
    return ".".join(nested) if nested else str(item.key)


def texts(update: Any) -> dict[str, str]:
    """JSON texts of a summary's update by full key."""
    return {key_of(item): item.value_json for item in update}


def change_tree(tree: dict[str, Any], record: Any) -> None:
    """Applies a configuration record to a configuration."""
    for item in record.update:
        path = list(item.nested_key) or [item.key]
        if not _put(tree, path, loaded(item.value_json)):
            tree[".".join(path)] = loaded(item.value_json)
    for item in record.remove:
        path = list(item.nested_key) or [item.key]
        here = tree
        for name in path[:-1]:
            here = here.get(name)  # type: ignore[assignment]
            if not isinstance(here, dict):
                break
        else:
            here.pop(path[-1], None)


def _put(tree: dict[str, Any], path: Sequence[str], value: Any) -> bool:
    """Puts a value into a tree. False: where it belongs stands one that is no tree."""
    for name in path[:-1]:
        below = tree.setdefault(name, {})
        if not isinstance(below, dict):
            return False
        tree = below
    tree[path[-1]] = value
    return True


def loaded(text: str) -> Any:
    """A JSON text's value; the text itself where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def time_of(stamp: Any) -> datetime | None:
    """Naive UTC of a Timestamp; None where it says nothing that a clock can show."""
    try:
        seconds = stamp.seconds + stamp.nanos / 1e9
        return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None) if seconds > 0 else None
    except (ValueError, OverflowError, OSError):
        return None


def _typed(key: str, item: Any) -> Value:
    """A value as clients of 0.31 may write it besides or instead of JSON."""
    kind = item.WhichOneof("choice")
    if kind == "json":
        return value_of_text(key, item.json)
    if kind is None:
        return Value(key, None, "", "text")
    return value_of(key, None if kind == "none" else getattr(item, kind))


@functools.cache
def _classes() -> tuple[Any, type[Exception]]:
    from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory  # noqa: PLC0415  30 ms

    file = descriptor_pb2.FileDescriptorProto(name="tic_wandb.proto", package=_PACKAGE, syntax="proto3")
    field_type = descriptor_pb2.FieldDescriptorProto
    for name, fields in MESSAGES.items():
        declared = file.message_type.add(name=name)
        if any(kind.startswith("?") for _, _, kind in fields):
            declared.oneof_decl.add(name="choice")
        for field, number, kind in fields:
            base = kind.lstrip("?*")
            made = declared.field.add(name=field, number=number)
            made.label = field_type.LABEL_REPEATED if kind.startswith("*") else field_type.LABEL_OPTIONAL
            if base in MESSAGES:
                made.type, made.type_name = field_type.TYPE_MESSAGE, f".{_PACKAGE}.{base}"
            else:
                made.type = getattr(field_type, f"TYPE_{base.upper()}")
            if kind.startswith("?"):
                made.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName(f"{_PACKAGE}.Record")
    return message_factory.GetMessageClass(found), message.DecodeError
