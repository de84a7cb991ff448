"""Dry runs of a campaign on public records: run cases, store their results, and make tables and charts of them."""
