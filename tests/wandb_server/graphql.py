"""Answers to the GraphQL operations that the client sends, by the name of the operation.

A field that a query does not ask for does not hurt: the client takes what it knows. An operation that is not here is
answered with an error, as an older server does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tests.wandb_server.runs import EVENTS, Run

if TYPE_CHECKING:
    from tests.wandb_server.server import WandbServer

_NAME = re.compile(r"\b(?:query|mutation)\s+(\w+)")

Variables = Mapping[str, Any]


def operation(query: str) -> str:
    """The name of the operation of a document."""
    found = _NAME.search(query)
    return found[1] if found else ""


def answer(server: WandbServer, name: str, variables: Variables) -> dict[str, Any]:
    """The whole answer to one operation."""
    how = _ANSWERS.get(name)
    if how is None:
        return {"data": None, "errors": [{"message": f"Cannot query {name} on this server"}]}
    return {"data": how(server, variables)}


def _viewer(server: WandbServer, _variables: Variables) -> dict[str, Any]:
    return {
        "viewer": {
            "id": "VXNlcjox", "entity": server.entity, "username": server.entity, "name": server.entity,
            "email": "someone@example.org", "admin": False, "flags": "{}", "deletedAt": None, "apiKeys": None,
            "teams": {"edges": [{"node": {"name": server.entity}}]},
        }
    }  # fmt: skip


def _features(_server: WandbServer, _variables: Variables) -> dict[str, Any]:
    return {"serverInfo": {"features": [{"name": "FILESTREAM_GZIP", "isEnabled": True}]}}


def _organization(_server: WandbServer, _variables: Variables) -> dict[str, Any]:
    return {"entity": {"organization": None}}


def _bucket(run: Run, *, line_count: int) -> dict[str, Any]:
    return {
        "id": f"id-{run.name}", "name": run.name, "displayName": run.display_name, "description": None,
        "config": run.config, "sweepName": None, "historyLineCount": line_count,
        "project": {
            "id": f"id-{run.project}", "name": run.project,
            "entity": {"id": f"id-{run.entity}", "name": run.entity},
        },
    }  # fmt: skip


def _upsert(server: WandbServer, variables: Variables) -> dict[str, Any]:
    entity = variables.get("entity") or server.entity
    project = variables.get("project") or "uncategorized"
    path = f"{entity}/{project}/{variables.get('name') or variables.get('id')}"
    run = server.runs.get(path)
    inserted = run is None
    if run is None:
        run = server.add_run(path)
    run.config = variables.get("config") or run.config
    run.display_name = variables.get("displayName") or run.display_name
    run.state = variables.get("state") or "running"
    told = run.count() if run.upsert_line_count or variables.get("id") else 0
    return {"upsertBucket": {"bucket": _bucket(run, line_count=told), "inserted": inserted}}


def _resume_status(server: WandbServer, variables: Variables) -> dict[str, Any]:
    entity = variables.get("entity") or server.entity
    model = {
        "id": f"id-{variables['project']}", "name": variables["project"],
        "entity": {"id": f"id-{entity}", "name": entity}, "bucket": None,
    }  # fmt: skip
    run = server.runs.get(f"{entity}/{variables['project']}/{variables['name']}")
    if run is not None:
        tail = [json.dumps(row) for row in run.rows()[-1:]]
        model["bucket"] = {
            "id": f"id-{run.name}", "name": run.name, "displayName": run.display_name, "config": run.config,
            "summaryMetrics": run.summary(), "logLineCount": 0, "historyLineCount": run.count(),
            "eventsLineCount": len(run.files[EVENTS]), "historyTail": json.dumps(tail), "eventsTail": "[]",
            "tags": [], "notes": None, "wandbConfig": '{"t": 1}',
        }  # fmt: skip
    return {"model": model}


def _rewind(server: WandbServer, variables: Variables) -> dict[str, Any]:
    entity = variables.get("entity") or server.entity
    run = server.runs[f"{entity}/{variables['project']}/{variables['runName']}"]
    run.rewind(int(variables["metricValue"]))
    return {"rewindRun": {"rewoundRun": _bucket(run, line_count=run.count())}}


def _run_files(server: WandbServer, variables: Variables) -> dict[str, Any]:
    files = [
        {"name": name, "uploadUrl": f"{server.url}/upload/{variables['run']}/{number}"}
        for number, name in enumerate(variables["files"])
    ]
    return {"createRunFiles": {"runID": f"id-{variables['run']}", "uploadHeaders": [], "files": files}}


def _of_run(tell: Callable[[WandbServer, Run, Variables], dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Answers about one run: null for a run that is not there."""

    def told(server: WandbServer, variables: Variables) -> dict[str, Any]:
        entity = variables.get("entity") or variables.get("entityName")
        project = variables.get("project") or variables.get("projectName")
        name = variables.get("name") or variables.get("run") or variables.get("runName") or variables.get("runId")
        run = server.runs.get(f"{entity}/{project}/{name}")
        if run is None:
            known = any(path.startswith(f"{entity}/{project}/") for path in server.runs)
            return {"project": {"run": None} if known else None}
        return {"project": {"run": tell(server, run, variables)}}

    return told


def _run(server: WandbServer, run: Run, _variables: Variables) -> dict[str, Any]:
    return {
        "projectId": "1", "id": f"id-{run.name}", "tags": [], "name": run.name, "displayName": run.display_name,
        "sweepName": None, "state": run.state, "config": run.config, "group": None, "jobType": None, "commit": None,
        "readOnly": False, "createdAt": "2026-01-02T03:04:05", "heartbeatAt": run.heartbeat_at,
        "description": None, "notes": None, "systemMetrics": "{}", "summaryMetrics": run.summary(),
        "historyLineCount": run.count(), "user": {"name": server.entity, "username": server.entity},
        "historyKeys": run.history_keys(),
    }  # fmt: skip


def _parquet(server: WandbServer, run: Run, _variables: Variables) -> dict[str, Any]:
    urls = [f"{server.url}/parquet/{run.path}/{n}?X-Signature=secret-of-{n}" for n in range(len(run.exports))]
    return {"parquetHistory": {"parquetUrls": urls, "liveData": [{"_step": step} for step in run.live_steps()]}}


def _page(_server: WandbServer, run: Run, variables: Variables) -> dict[str, Any]:
    return {"history": run.page(int(variables["minStep"]), int(variables["maxStep"]), int(variables["pageSize"]))}


_ANSWERS: dict[str, Callable[..., dict[str, Any]]] = {
    "Viewer": _viewer,
    "GetDefaultEntity": _viewer,
    "GetViewer": _viewer,
    "ServerFeaturesQuery": _features,
    "OrganizationCoreWeaveOrganizationID": _organization,
    "UpsertBucket": _upsert,
    "RunResumeStatus": _resume_status,
    "RewindRun": _rewind,
    "CreateRunFiles": _run_files,
    "RunStoppedStatus": _of_run(lambda _server, _run, _variables: {"stopped": False}),
    "Run": _of_run(_run),
    "RunState": _of_run(lambda _server, run, _variables: {"state": run.state}),
    "RunHistoryKeys": _of_run(lambda _server, run, _variables: {"historyKeys": run.history_keys()}),
    "RunParquetHistory": _of_run(_parquet),
    "HistoryPage": _of_run(_page),
}
