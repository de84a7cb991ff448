"""Summaries and pictures: a plan drawn, a campaign on a page for an audience. A picture is pure data and a renderer."""
