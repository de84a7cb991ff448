"""Students: who asks teachers what, and learns from the answers. Everything here is post-processing, but for asking."""

from discreet.trainers.students.disagreement import disagreement_student
from discreet.trainers.students.student import Ask, Student, margin_student, passive_student, voting_student

__all__ = ["Ask", "Student", "disagreement_student", "margin_student", "passive_student", "voting_student"]
