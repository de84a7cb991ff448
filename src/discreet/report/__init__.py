"""Summaries and pictures. A picture is pure data plus a renderer."""
