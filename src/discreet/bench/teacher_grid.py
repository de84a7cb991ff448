"""Teachers on Adult and MNIST: which numbers of them, which aggregators, which students."""

from __future__ import annotations

from discreet.bench.teacher_cases import TeacherMethod, TeacherProblem

SEEDS = 6
"""The first chooses caps (`discreet.bench.teacher_tables`); the others are reported."""
EPSILONS = ("0.5", "1", "2", "4", "8")
STUDENTS = ("passive", "passive, pseudo-labels", "passive, voting", "margin", "disagreement")
GAUSSIAN = TeacherMethod(name="gaussian, all students", aggregators=("gaussian",), epsilons=EPSILONS, students=STUDENTS)
OTHERS = TeacherMethod(
    name="other noisy maxima",
    aggregators=("gaussian-paper", "laplace", "laplace-paper", "confident"),
    epsilons=EPSILONS,
    students=("passive",),
)
SPARSE = TeacherMethod(
    name="sparse vector",
    aggregators=("sparse", "sparse-paper"),
    epsilons=EPSILONS,
    students=("passive", "passive, arbitrary", "passive, pseudo-label", "disagreement"),
)


def _problems(data: str, teachers: tuple[int, ...]) -> tuple[TeacherProblem, ...]:
    return tuple(
        TeacherProblem(
            name=f"{data}, K={count}",
            data=data,  # type: ignore[arg-type]
            teachers=count,
            answers=(100, 300, 1000),
            unstable=(1, 20, 100),
            strength=1.0 if count < 600 else 10.0,
        )
        for count in teachers
    )


FEW, MANY = (25, 100, 250), (700, 1500, 3000)
TEACHERS_ADULT = (
    (_problems("adult", FEW), (GAUSSIAN, OTHERS)),
    (_problems("adult", MANY), (GAUSSIAN, SPARSE)),
)
TEACHERS_MNIST = (
    (_problems("mnist", FEW), (GAUSSIAN, OTHERS)),
    (_problems("mnist", MANY), (GAUSSIAN, SPARSE)),
)
