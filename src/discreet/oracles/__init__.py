"""Who answers: people in files, functions, simulated annotators; and one label a record from what they say."""

from discreet.oracles.annotators import AnnotatorMatrices, DawidSkene, annotator_matrices, dawid_skene, weighted_vote
from discreet.oracles.answer_files import AnswerRow, read_answer_rows, read_answers, read_labels
from discreet.oracles.answers import Accepted, check_answers, current_answers, majority
from discreet.oracles.file_oracle import FileOracle, about, remove_rows
from discreet.oracles.programs import CallableOracle, SimulatedOracle
from discreet.oracles.question_files import AnswerWords, write_answers, write_questions
from discreet.oracles.registry import ORACLES, build_oracle

__all__ = [
    "ORACLES",
    "Accepted",
    "AnnotatorMatrices",
    "AnswerRow",
    "AnswerWords",
    "CallableOracle",
    "DawidSkene",
    "FileOracle",
    "SimulatedOracle",
    "about",
    "annotator_matrices",
    "build_oracle",
    "check_answers",
    "current_answers",
    "dawid_skene",
    "majority",
    "read_answer_rows",
    "read_answers",
    "read_labels",
    "remove_rows",
    "weighted_vote",
    "write_answers",
    "write_questions",
]
