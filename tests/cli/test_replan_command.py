"""`discreet replan` as a user meets it: the table, refusals, the question, the JSON, and what other verbs then say."""

import pytest
from test_campaign_verbs import after, begun, charged, form, refused, run, said, trained  # noqa: F401 - fixtures

from discreet.cli import replan as command

pytestmark = pytest.mark.thorough

WISH = ("replan", "c.toml", "--because", "outside", "--queries", "10,10", "--note", "less money")


def test_it_is_shown_agreed_to_made_and_known_to_other_verbs(after, capsys, monkeypatch):  # noqa: F811
    before = charged(after)
    shown = said(capsys, *WISH, "--dry-run").out
    for word in ("adaptive", "by the filter", "Decided beforehand", "less money", "Nothing was changed yet"):
        assert word in shown
    assert charged(after) == before
    assert "--yes" in refused(capsys, *WISH)  # nobody is there
    assert "--yes" in refused(capsys, *WISH, "--json")

    monkeypatch.setattr(command.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(command.typer, "confirm", lambda question: False)
    assert "Nothing was changed." in said(capsys, *WISH).out
    assert form(capsys, "status", "c.toml")["mode"] == "committed"
    monkeypatch.setattr(command.typer, "confirm", lambda question: True)
    assert "Re-planned from phase 1 on" in said(capsys, *WISH).out

    again = form(capsys, *WISH, "--yes", "--json")
    assert (again["format"], again["made"], again["simulation"]) == ("discreet.replan/1", True, False)
    status = form(capsys, "status", "c.toml")
    assert (status["mode"], status["phases"], len(status["replanned"])) == ("adaptive", 3, 1)
    assert "because: outside (less money)" in said(capsys, "status", "c.toml").out
    assert form(capsys, "verify", "c.toml")["ok"]
    assert "from here on adaptive" in said(capsys, "ledger", "show", "c.toml").out
    assert 0 < len(form(capsys, "ask", "c.toml")["questions"]) <= 10
    assert "was begun" in refused(capsys, *WISH, "--epsilon", "9", "--yes")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--queries", "5"], "without a reason"),
        (["--because", "answers", "--queries", "5"], "--partial"),
        (["--because", "outside"], "nothing is to change"),
        (["--because", "outside", "--queries", "5", "--labels", "5"], "both"),
        (["--because", "outside", "--queries", "many"], "not a list of sizes"),
        (["--because", "outside", "--queries", "5", "--dry-run", "--yes"], "exclude"),
        (["--because", "outside", "--queries", "200", "--yes"], "the pool has 120"),
        (["--because", "outside", "--epsilon", "two", "--yes"], "decimal"),
        (["--because", "outside", "--epsilon", "3", "--yes"], "was promised"),
        (["--because", "released", "--epsilon", "9", "--yes"], "outputs choose"),
    ],
)
def test_nonsense_is_one_line_and_changes_nothing(after, capsys, options, words):  # noqa: F811
    before = charged(after)
    assert words in refused(capsys, "replan", "c.toml", *options)
    assert charged(after) == before


def test_the_world_is_told_of_a_larger_promise(after, capsys):  # noqa: F811
    said(capsys, "ledger", "export", "c.toml", "--out", "before.json")
    assert form(capsys, "verify", "before.json", "--ledger", "c.toml")["ok"]
    raised = form(capsys, "replan", "c.toml", "--because", "outside", "--epsilon", "9", "--yes", "--json")
    assert any("grows from epsilon 8 to 9" in one for one in raised["warnings"])
    assert raised["audience"] == "public"
    assert (raised["before"]["epsilon"], raised["after"]["epsilon"]) == (8, 9)
    found = form(capsys, "verify", "before.json", "--ledger", "c.toml", code=1)["checks"]
    assert [check["name"] for check in found if not check["ok"]] == ["replanned"], "a promise that was replaced"
    assert "as it stands: replanned" in refused(capsys, "report", "c.toml", "--certificate", "before.json")
    said(capsys, "ledger", "export", "c.toml", "--out", "after.json")
    assert form(capsys, "verify", "after.json", "--ledger", "c.toml")["ok"]
