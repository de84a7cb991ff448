"""Teachers: models of disjoint parts of the private data, that vote on public records."""

from discreet.trainers.teachers.training import read_votes, split, train_teachers, write_votes

__all__ = ["read_votes", "split", "train_teachers", "write_votes"]
