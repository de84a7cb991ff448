"""People who answer in Label Studio: a project of the campaign's own, one task a question.

Guarantee: a question has a task on the server before it is pushed again, or it is pushed; so a crash, a lost answer of
the server or a second process doubles nothing that stays. Tasks that were doubled all the same (somebody imported them
again) are read together, one voice a person; those that nobody touched are deleted, all but the first, each looked at
once more before. Nothing that people submitted is ever deleted here, except with a record that was withdrawn, and what
they submit in the instant between that last look and the deletion of a doubled task.

A task holds the question's id and what annotators see of the record; never the record's own id. Who sees it: everybody
with an account in the organisation that the project is in (`shown_to`), to be recorded before anything is pushed.

The project is found again by a mark in its description, a hash of the campaign's id. A project whose config was changed
so that answers could not be read any more is refused. Of several with the mark (of processes that did not see one
another) the oldest is it; the others are read with it, and deleted when there is no task in them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from discreet.errors import BadInput
from discreet.oracles.answers import checked_classes
from discreet.oracles.label_studio.client import TRIES
from discreet.oracles.label_studio.hints import HEADER
from discreet.oracles.label_studio.server import Project, Server, Task
from discreet.oracles.label_studio.tasks import Kind, Read, Voice, labeling_config, misfit, read_tasks
from discreet.records import HANDED_OUT, PERSON, Answer, Question, Shown, Value

_TASKS, _BYTES = 50, 4_000_000
"""Of one import, at most."""
Render = Callable[[Sequence[str]], Sequence[Mapping[str, Any]]]
"""What annotators see of records, by id; as many, in that order."""


@dataclass(frozen=True, kw_only=True)
class Pushed:
    """What a push did. Audience: owner.

    project   its number on the server; None: there is none, for nothing was to be pushed
    new       questions that had no task: made now, by this process or by another at the same time
    existing  how many had one
    tidied    doubled tasks that were deleted
    beside    numbers of further projects with the campaign's mark and tasks in them: read, and never deleted here
    """

    project: int | None
    new: tuple[str, ...] = ()
    existing: int = 0
    tidied: int = 0
    beside: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ProjectStatus:
    """What is on the server. ``project`` is None where there is none yet. Audience: owner."""

    project: int | None
    tasks: int = 0
    people: int = 0
    read: Read | None = None


def mark_of(campaign: str) -> str:
    """What a project is known by: a hash of the campaign's id, which itself stays at home."""
    return f"discreet:{hashlib.sha256(f'discreet label-studio {campaign}'.encode()).hexdigest()[:24]}"


class LabelStudioOracle:
    """Pushes questions to a server, collects what people submitted there.

    campaign      its id, from which the project's mark is made
    render        what annotators see of records, as the ``kind`` says: "image", "text" or "table"
    project       the number of a project to use; None: the one with the mark, or a new one
    per_question  how many people are offered a task
    known         questions that were asked before: answers to them, and changes of mind, are collected too
    """

    simulation = False
    shows_everybody = True

    def __init__(
        self,
        server: Server,
        *,
        campaign: str,
        title: str,
        kind: Kind,
        render: Render,
        classes: Sequence[str],
        multilabel: bool = False,
        project: int | None = None,
        per_question: int = 1,
        known: Sequence[Question] = (),
    ) -> None:
        self._server, self._mark, self._title = server, mark_of(campaign), title
        self._kind, self._render = kind, render
        self._classes, self._multilabel = checked_classes(classes, multilabel=multilabel), multilabel
        self._config = labeling_config(kind, self._classes, multilabel=multilabel)
        self._number, self._per_question = project, per_question
        self._asked: dict[str, Question] = {question.id: question for question in known}
        self._given: dict[Voice, Value] = {}
        self.read: Read | None = None

    @property
    def audience(self) -> str:
        """What the exposure ledger calls the server."""
        return f"label-studio at {self._server.url}"

    def check(self) -> None:
        """Refuse a server that is down, a token or version it will not do with, a project that was changed."""
        self._projects()

    # -- the role

    def ask(self, questions: Sequence[Question]) -> None:
        """Push those that have no task yet, in the order in which they are to be shown."""
        self.push(questions)

    def push(self, questions: Sequence[Question]) -> Pushed:
        """As `ask`; says what it did. Where the server fails (on SQLite it does, when several write at once), what is
        there is looked up, and the rest is pushed; where the project gave way to an older one, to that one.
        """
        wanted = {item.id: item for item in questions}
        for left in reversed(range(TRIES)):
            projects = self._server.again(self._made) if wanted else self._projects()
            if not projects:
                break
            try:
                return self._pushed(projects, wanted)
            except BadInput:
                if not left or self._number is not None or projects[0].id in {item.id for item in self._projects()}:
                    raise
        return Pushed(project=None)

    def _pushed(self, projects: list[Project], wanted: Mapping[str, Question]) -> Pushed:
        project, *others = projects
        if wanted and project.people < self._per_question:
            self._server.set_people(project.id, self._per_question)
        self._asked |= wanted
        existing, tidied = self._tidied(self._server.tasks(project.id))
        beside = tuple(item.id for item in others if not self._gave_way(item))
        fresh = [item for item in wanted.values() if item.id not in existing]
        self._server.again(lambda: self._import(project, fresh))
        new = tuple(item.id for item in fresh)
        return Pushed(project=project.id, new=new, existing=len(wanted) - len(fresh), tidied=tidied, beside=beside)

    def collect(self) -> list[Answer]:
        """Answers that are new or other than the last time; `read` says what else stands there."""
        read = self.look()
        new_answers = [
            answer
            for answer in (read.answers if read is not None else ())
            if (answer.question_id, answer.annotator) not in self._given
            or self._given[answer.question_id, answer.annotator] != answer.value
        ]
        self._given |= {(answer.question_id, answer.annotator): answer.value for answer in new_answers}
        return new_answers

    def look(self) -> Read | None:
        """Everything that stands on the server, told before or not; None where there is no project yet."""
        projects = self._projects()
        self.read = self._understood(self._tasks(self._readable(projects))) if projects else None
        return self.read

    def shown_to(self, questions: Sequence[Question]) -> list[Shown]:
        """The server, and everybody who has an account there: each of them can open every task."""
        self._server.version()
        people = sorted({name for name in self._server.people().values() if name})
        return [
            Shown(question_id=question.id, audience=name, kind=kind)
            for question in questions
            for name, kind in ((self.audience, HANDED_OUT), *((person, PERSON) for person in people))
        ]

    # -- what else an owner wants

    def status(self) -> ProjectStatus:
        """What is on the server now; nothing is changed."""
        projects = self._projects()
        if not projects:
            return ProjectStatus(project=None)
        tasks = self._tasks(self._readable(projects))
        people = len(self._server.people())
        return ProjectStatus(project=projects[0].id, tasks=len(tasks), people=people, read=self._understood(tasks))

    def remove(self, questions: Collection[str]) -> int:
        """Delete the tasks of questions, with everything about them on the server; how many there were."""
        if not questions:
            return 0
        gone = [task for task in self._tasks(self._projects()) if task.question in questions]
        return sum(self._server.delete_task(task.id) for task in gone)

    def remove_all(self) -> int:
        """Delete the campaign's own project with all its tasks; of a project that was named, its tasks alone."""
        projects = self._projects()
        tasks = [item for item in self._tasks(projects) if item.question in self._asked]
        if self._number is None:
            for item in projects:
                self._server.delete_project(item.id)
            return len(tasks)
        return sum(self._server.delete_task(item.id) for item in tasks)

    def hint_at(self, url: str, secret: str) -> bool:
        """Let the server call ``url`` when people submit something, without saying what; whether there is a project to
        do it for. Again changes nothing but the secret.
        """
        projects = self._projects()
        for project in projects:
            self._server.set_webhook(project.id, url, {HEADER: secret})
        return bool(projects)

    def no_hints_at(self, url: str) -> int:
        """Let the server call ``url`` no more; how many webhooks did."""
        return sum(self._server.delete_webhooks(project.id, url) for project in self._projects())

    def __repr__(self) -> str:
        """Counts, never answers."""
        return f"LabelStudioOracle(asked={len(self._asked)}, answers={len(self._given)})"

    # -- inside

    def _projects(self) -> list[Project]:
        """The project that was named; or all with the mark, the oldest first, which is the one that is pushed to.

        Nothing is asked of a server whose version was not tested.
        """
        self._server.version()
        if self._number is not None:
            return [self._fitting(self._server.project(self._number))]
        marked = [project for project in self._server.projects() if self._mark in project.description]
        marked.sort(key=lambda project: project.id)
        return [self._fitting(marked[0]), *marked[1:]] if marked else []

    def _made(self) -> list[Project]:
        """Those that are there; if none is, a new one, or what another process made at the same time."""
        if projects := self._projects():
            return projects
        project = self._server.create_project(
            title=f"discreet: {self._title}"[:50],  # a title has 3 to 50 letters
            description=f"Questions of a campaign. Leave this mark for it to be found again: {self._mark}",
            label_config=self._config,
            maximum_annotations=self._per_question,
            sampling="Sequential sampling",
            skip_queue="IGNORE_SKIPPED",  # a skip is an answer
            enable_empty_annotation=self._multilabel,
            show_collab_predictions=False,
            evaluate_predictions_automatically=False,
        )
        return self._projects() or [project]

    def _gave_way(self, project: Project) -> bool:
        """Delete a younger project with nothing in it. Work that is submitted at this moment would be lost with a task,
        so one with tasks stays, and is read.
        """
        try:
            if self._server.tasks(project.id):
                return False
        except BadInput:  # another process has deleted it
            return True
        self._server.delete_project(project.id)
        return True

    def _tasks(self, projects: Sequence[Project]) -> list[Task]:
        """Of all of them. A younger one may be gone meanwhile."""
        tasks = self._server.tasks(projects[0].id) if projects else []
        for project in projects[1:]:
            with suppress(BadInput):
                tasks += self._server.tasks(project.id)
        return tasks

    def _misfit(self, project: Project) -> str:
        return misfit(project.config, self._kind, self._classes, multilabel=self._multilabel)

    def _fitting(self, project: Project) -> Project:
        if fact := self._misfit(project):
            raise BadInput(
                f"project {project.id} of Label Studio at {self._server.url}",
                f"answers given in it could not be read: {fact}",
                "Put its labelling config back, or name another project: [oracle] project",
            )
        return project

    def _tidied(self, tasks: Sequence[Task]) -> tuple[set[str], int]:
        """Questions that have a task; and how many doubled ones were deleted, which nobody had touched."""
        by_question: dict[str, list[Task]] = {}
        for task in tasks:
            if task.question in self._asked and task.question is not None:
                by_question.setdefault(task.question, []).append(task)
        tidied = 0
        for copies in by_question.values():
            touched = [copy for copy in copies if copy.annotations or copy.drafts]
            first = min(touched or copies, key=lambda copy: copy.id)
            idle = [copy for copy in copies if copy is not first and not copy.annotations and not copy.drafts]
            tidied += sum(self._server.delete_task(copy.id) for copy in idle if self._server.untouched(copy.id))
        return set(by_question), tidied

    def _import(self, project: Project, fresh: Sequence[Question]) -> None:
        """Those that have no task at this moment."""
        if fresh:
            existing = {item.question for item in self._server.tasks(project.id)}
            for part in self._parts([item for item in fresh if item.id not in existing]):
                self._server.import_tasks(project.id, part)

    def _parts(self, fresh: Sequence[Question]) -> Iterator[list[tuple[str, Mapping[str, Any]]]]:
        """Rendered when they are sent, a few at a time."""
        part: list[tuple[str, Mapping[str, Any]]] = []
        size = 0
        for start in range(0, len(fresh), _TASKS):
            some = fresh[start : start + _TASKS]
            for question, data in zip(some, self._render([question.record for question in some]), strict=True):
                length = len(json.dumps(data))
                if part and (len(part) == _TASKS or size + length > _BYTES):
                    yield part
                    part, size = [], 0
                part.append((question.id, data))
                size += length
        if part:
            yield part

    def _readable(self, projects: list[Project]) -> list[Project]:
        """Without younger ones whose config was changed: what they say is not understood."""
        return [project for project in projects if project is projects[0] or not self._misfit(project)]

    def _understood(self, tasks: Sequence[Task]) -> Read:
        return read_tasks(
            tasks,
            known=self._asked,
            people=self._server.people(),
            classes=self._classes,
            multilabel=self._multilabel,
        )
