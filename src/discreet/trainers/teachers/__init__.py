"""Teachers: models of disjoint parts of the private data, that vote on public records."""

from discreet.trainers.teachers.splitting import split
from discreet.trainers.teachers.training import train_teachers
from discreet.trainers.teachers.votes_files import read_votes, write_votes

__all__ = ["read_votes", "split", "train_teachers", "write_votes"]
