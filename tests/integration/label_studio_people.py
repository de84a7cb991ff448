"""People at a Label Studio server, by its API: what they do there, and what is there to be seen."""

import sqlite3
import uuid

import httpx2
from label_studio_server import LEGACY

from discreet.oracles.label_studio import Client, LabelStudioOracle, Server, Token
from discreet.records import Question

CLASSES = ("healthy", "ill")


def questions(count, phase=0):
    return [Question(id=f"{phase}.{n}", record=f"secret-id-{phase}-{n}", phase=phase, place=n) for n in range(count)]


def texts(records):
    return [{"text": f"words of number {name.rsplit('-', 1)[1]}"} for name in records]


def server_at(running, token=LEGACY, **options):
    return Server(Client(running.url, Token(value=token), **options))


def oracle_at(running, *, campaign=None, token=LEGACY, **options):
    """A new campaign's, unless one is named."""
    given = {"title": "scans", "kind": "text", "render": texts, "classes": CLASSES} | options
    return LabelStudioOracle(server_at(running, token), campaign=campaign or uuid.uuid4().hex, **given)


class People:
    """Whoever is signed in is the owner; annotations may be anybody's, as that API allows."""

    def __init__(self, running):
        self._running = running

    def send(self, method, path, body=None, **query):
        headers = {"Authorization": f"Token {LEGACY}"}
        with httpx2.Client(base_url=self._running.url, headers=headers, timeout=60, trust_env=False) as client:
            answer = client.request(method, path, json=body, params=query)
        assert answer.is_success, (answer.status_code, answer.text)
        return answer.json() if answer.content else None

    def join(self, name):
        """An account; its number and its name."""
        name = f"{name}-{uuid.uuid4().hex[:8]}"
        made = self.send("POST", "/api/users/", {"email": f"{name}@example.org", "username": name[:30]})
        return made["id"], made["email"]

    def tasks(self, project):
        """All of them with their data, by question."""
        found = self.send("GET", "/api/tasks", project=project, fields="all", page_size=10_000)["tasks"]
        return {task["data"].get("question_id", task["id"]): task for task in found}

    def count(self, project):
        return self.send("GET", "/api/tasks", project=project, page_size=1)["total"]

    def choose(self, task, *labels, by=None, control="label", **more):
        result = [{"from_name": control, "to_name": "record", "type": "choices", "value": {"choices": list(labels)}}]
        return self.submit(task, result if labels else [], by=by, **more)

    def submit(self, task, result, *, by=None, **more):
        body = {"result": result, **more} | ({"completed_by": by} if by is not None else {})
        return self.send("POST", f"/api/tasks/{task['id']}/annotations/", body)["id"]

    def skip(self, task, *, by=None):
        return self.submit(task, [], by=by, was_cancelled=True)

    def change(self, annotation, *labels):
        result = [{"from_name": "label", "to_name": "record", "type": "choices", "value": {"choices": list(labels)}}]
        self.send("PATCH", f"/api/annotations/{annotation}/", {"result": result})

    def exports(self):
        """Files that the server has kept of exports."""
        return [place for place in (self._running.data / "export").iterdir() if not place.name.endswith("-info.json")]

    def database(self):
        """Every text in every table of the server."""
        with sqlite3.connect(f"file:{self._running.data}/label_studio.sqlite3?mode=ro", uri=True) as opened:
            return "\n".join(opened.iterdump())
