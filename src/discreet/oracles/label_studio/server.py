"""The calls that are used of Label Studio, with what comes back checked and typed.

Tasks are read in pages, without their data: polling moves no record. Exports are not used: each one leaves a copy of
every record in a directory of the server, which deleting a task does not reach (docs/decisions/0054).

A question is known by ``meta.question_id`` of its task. Everything else in ``meta`` and all of ``data`` is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from discreet.errors import BadInput
from discreet.oracles.label_studio.client import Client, Result

QUESTION = "question_id"
OLDEST = (1, 23)
"""The version that this was tested with."""
PAGE = 200
HINTS = ("ANNOTATION_CREATED", "ANNOTATIONS_CREATED", "ANNOTATION_UPDATED", "ANNOTATIONS_DELETED", "TASKS_DELETED")
"""What a webhook is called for: whatever a look would find changed."""
_PROJECT = "id,description,label_config,maximum_annotations"
_TASK = "id,meta,annotations,drafts,completed_by,result,was_cancelled,ground_truth,updated_at"
"""What is read of them; names of a task's fields and of its annotations' are one list."""
_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})")


@dataclass(frozen=True, kw_only=True)
class Project:
    """A project, as far as it matters. ``people``: how many annotations a task is offered for."""

    id: int
    description: str
    config: str = field(repr=False)
    people: int


@dataclass(frozen=True, kw_only=True)
class Annotation:
    """What one person submitted. ``by``: the number of their account, None where it is gone. Audience: owner."""

    id: int
    by: int | None
    result: Any = field(repr=False)
    skipped: bool
    gold: bool
    at: datetime


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task without its data. ``question``: None, if it is not one of ours. ``drafts``: begun and not submitted."""

    id: int
    question: str | None
    annotations: tuple[Annotation, ...] = field(repr=False)
    drafts: int


class Server:
    """What is asked of a Label Studio server."""

    def __init__(self, client: Client) -> None:
        self._client, self._release = client, ""

    @property
    def url(self) -> str:
        """Where it is."""
        return self._client.url

    def __repr__(self) -> str:
        return f"Server({self.url})"

    def again(self, work: Callable[[], Result]) -> Result:
        """See `Client.again`."""
        return self._client.again(work)

    def version(self) -> str:
        """Refused, if it is not one that this was tested with. Asked for once."""
        if self._release:
            return self._release
        form = self._mapping(self._client.get("/api/version"))
        release = str(form.get("release", ""))
        version = _VERSION.match(release)
        if version is None:
            raise self._client.strange("it names no version")
        if (int(version[1]), int(version[2])) < OLDEST or int(version[1]) > OLDEST[0]:
            raise BadInput(
                f"Label Studio {version[0]} at {self.url}",
                f"it is tested with {OLDEST[0]}.{OLDEST[1]} and newer ones before {OLDEST[0] + 1}",
                "Upgrade it, or use another oracle",
            )
        if form.get("edition", "Community") != "Community":
            raise BadInput(
                f"Label Studio at {self.url}",
                "its edition is not the community one, and imports in another way",
                "Use the community edition, or another oracle",
            )
        self._release = release
        return release

    def people(self) -> dict[int, str]:
        """Everybody with an account in the organisation, by number: all of them can open every project."""
        accounts = self._client.get("/api/users/")
        if not isinstance(accounts, list):
            raise self._client.strange("there is no list of accounts")
        return {
            self._whole(account, "id"): str(account.get("email") or account.get("username") or "")
            for account in accounts
        }

    # -- projects

    def projects(self) -> Iterator[Project]:
        """All of them."""
        for form in self._pages("/api/projects/", "results", "count", include=_PROJECT):
            yield self._project(form)

    def project(self, number: int) -> Project:
        """One, by its number."""
        return self._project(self._client.get(f"/api/projects/{number}/"))

    def create_project(self, **settings: Any) -> Project:
        """A new one."""
        return self._project(self._client.post("/api/projects/", settings))

    def set_people(self, number: int, people: int) -> None:
        """How many annotations a task is offered for."""
        self._client.patch(f"/api/projects/{number}/", {"maximum_annotations": people})

    def delete_project(self, number: int) -> bool:
        """With everything in it. Whether it was there."""
        return self._client.delete(f"/api/projects/{number}/")

    # -- tasks

    def import_tasks(self, number: int, tasks: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        """Add tasks: a question's id, and what annotators see. What is there already is added again."""
        body = [{"data": {**data, QUESTION: name}, "meta": {QUESTION: name}} for name, data in tasks]
        form = self._mapping(self._client.post(f"/api/projects/{number}/import", body))
        if form.get("task_count") != len(tasks):
            raise self._client.strange("it took another number of tasks than it was given")

    def tasks(self, number: int) -> list[Task]:
        """All tasks of a project with what was submitted, without their data, by their numbers."""
        tasks: dict[int, Task] = {}
        wanted = {"project": number, "fields": "all", "include": _TASK, "resolve_uri": "false"}
        for form in self._pages("/api/tasks", "tasks", "total", **wanted):
            task = self._task(form)
            tasks[task.id] = task
        return [tasks[name] for name in sorted(tasks)]

    def untouched(self, number: int) -> bool:
        """Whether nobody submitted anything to a task or began to, as of now; False too, if it is gone."""
        try:
            listings = [self._client.get(f"/api/tasks/{number}/{kind}") for kind in ("annotations/", "drafts")]
        except BadInput:
            return False
        if not all(isinstance(listing, list) for listing in listings):
            raise self._client.strange("there are no annotations")
        return not any(listings)

    def delete_task(self, number: int) -> bool:
        """With its data and annotations. Whether it was there."""
        return self._client.delete(f"/api/tasks/{number}/")

    # -- webhooks

    def set_webhook(self, project: int, url: str, headers: Mapping[str, str]) -> None:
        """That the server calls ``url`` when annotations change, without saying what they are; once, however often it
        is set.
        """
        body = {"url": url, "headers": dict(headers), "is_active": True, "send_payload": False}
        body |= {"send_for_all_actions": False, "actions": list(HINTS)}
        first, *more = self._webhooks(project, url) or (None,)
        try:
            if first is None:
                self._client.post("/api/webhooks/", body | {"project": project})
            else:
                self._client.patch(f"/api/webhooks/{first}/", body)
        except BadInput as problem:
            raise BadInput(
                f"a webhook of Label Studio at {self.url}",
                f"{problem.fact}",
                "It calls nothing on its own machine or in a private network, unless it is started with "
                "SSRF_PROTECTION_ENABLED=false; without --hint-url sync looks by itself",
            ) from None
        for webhook in more:
            self._client.delete(f"/api/webhooks/{webhook}/")

    def delete_webhooks(self, project: int, url: str) -> int:
        """Those that call ``url``; how many there were."""
        return sum(self._client.delete(f"/api/webhooks/{webhook}/") for webhook in self._webhooks(project, url))

    def _webhooks(self, project: int, url: str) -> list[int]:
        listing = self._client.get("/api/webhooks/", project=project)
        if not isinstance(listing, list):
            raise self._client.strange("there is no list of webhooks")
        forms = [self._mapping(form) for form in listing]
        matching = [form for form in forms if form.get("url") == url and form.get("project") == project]
        return sorted(self._whole(form, "id") for form in matching)

    # -- inside

    def _pages(self, path: str, items: str, total: str, **query: Any) -> Iterator[Mapping[str, Any]]:
        """What is added meanwhile may be missing, what is deleted may hide a neighbour: the next poll has it."""
        page = seen = 0
        while True:
            page += 1
            form = self._mapping(self._client.get(path, **query, page=page, page_size=PAGE))
            some, in_all = form.get(items), self._whole(form, total)
            if not isinstance(some, list):
                raise self._client.strange(f"there are no {items}")
            yield from map(self._mapping, some)
            seen += len(some)
            if not some or seen >= in_all:
                return

    def _project(self, form: Any) -> Project:
        form = self._mapping(form)
        return Project(
            id=self._whole(form, "id"),
            description=str(form.get("description") or ""),
            config=str(form.get("label_config") or ""),
            people=self._whole(form, "maximum_annotations"),
        )

    def _task(self, form: Mapping[str, Any]) -> Task:
        meta = form.get("meta")
        name = meta.get(QUESTION) if isinstance(meta, dict) else None
        annotations, drafts = form.get("annotations"), form.get("drafts") or []
        if not isinstance(annotations, list) or not isinstance(drafts, list):
            raise self._client.strange("a task has no annotations")
        return Task(
            id=self._whole(form, "id"),
            question=name if isinstance(name, str) else None,
            annotations=tuple(self._annotation(self._mapping(annotation)) for annotation in annotations),
            drafts=len(drafts),
        )

    def _annotation(self, form: Mapping[str, Any]) -> Annotation:
        by = form.get("completed_by")
        by = by.get("id") if isinstance(by, dict) else by
        return Annotation(
            id=self._whole(form, "id"),
            by=by if isinstance(by, int) else None,
            result=form.get("result"),
            skipped=form.get("was_cancelled") is True,
            gold=form.get("ground_truth") is True,
            at=self._moment(form.get("updated_at")),
        )

    def _mapping(self, form: Any) -> Mapping[str, Any]:
        if not isinstance(form, dict):
            raise self._client.strange("it is not an object")
        return form

    def _whole(self, form: Mapping[str, Any], name: str) -> int:
        number = form.get(name)
        if isinstance(number, bool) or not isinstance(number, int):
            raise self._client.strange(f"{name} is not a number")
        return number

    def _moment(self, text: Any) -> datetime:
        try:
            moment = datetime.fromisoformat(text)
        except (TypeError, ValueError):
            raise self._client.strange("an annotation has no time") from None
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
