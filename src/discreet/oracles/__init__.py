"""Who answers: people in files, functions, simulated annotators; and one label a record from what they say."""

from discreet.oracles.annotators import AnnotatorMatrices, annotator_matrices, weighted_vote
from discreet.oracles.build import ORACLES, build_oracle
from discreet.oracles.calling import CallableOracle
from discreet.oracles.cells import AnswerWords
from discreet.oracles.checking import Accepted, check_answers
from discreet.oracles.dawid_skene import DawidSkene, dawid_skene
from discreet.oracles.file_oracle import FileOracle
from discreet.oracles.files_in import AnswerRow, read_answer_rows, read_answers
from discreet.oracles.files_out import write_answers, write_questions
from discreet.oracles.label_files import read_labels
from discreet.oracles.label_studio import LabelStudioOracle
from discreet.oracles.removing import about, remove_rows
from discreet.oracles.simulated import SimulatedOracle
from discreet.oracles.voting import current_answers, majority

__all__ = [
    "ORACLES",
    "Accepted",
    "AnnotatorMatrices",
    "AnswerRow",
    "AnswerWords",
    "CallableOracle",
    "DawidSkene",
    "FileOracle",
    "LabelStudioOracle",
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
