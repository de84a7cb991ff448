"""Answers per day: days in UTC, without a gap, and a picture that a strict policy lets pass."""

from datetime import UTC, date, datetime, timedelta, timezone

from discreet.web.owner_board import day_figure, draw_days

TODAY = date(2026, 3, 20)


def test_days_are_counted_in_utc_and_gaps_are_zero():
    east = timezone(timedelta(hours=9))
    times = [datetime(2026, 3, 18, 23, 59, tzinfo=UTC), datetime(2026, 3, 20, 1, tzinfo=east)]
    found = dict(day_figure(times, today=TODAY).days)
    assert found[date(2026, 3, 18)] == 1
    assert found[date(2026, 3, 19)] == 1  # one o'clock in the east is the day before
    assert found[TODAY] == 0
    assert len(found) == 7


def test_older_answers_are_counted_apart():
    times = [datetime(2026, 1, 1, tzinfo=UTC)] * 3 + [datetime(2026, 3, 20, tzinfo=UTC)]
    found = day_figure(times, today=TODAY, most_days=10)
    assert (len(found.days), found.before, found.most) == (10, 3, 1)


def test_without_answers_there_is_an_empty_week():
    found = day_figure([], today=TODAY)
    assert (len(found.days), found.most) == (7, 0)
    assert "no answer yet" in draw_days(found)


def test_the_picture_has_a_bar_a_day_and_no_style():
    picture = draw_days(day_figure([datetime(2026, 3, 19, tzinfo=UTC)] * 5, today=TODAY))
    assert picture.count('class="bar"') == 1
    assert "2026-03-19: 5" in picture
    assert "style" not in picture
