"""One thread for each worker: two workers with two threads each wait for one another on two cores.

Set before numpy or torch is imported, and inherited by the processes that tests start.

Attacks, kills, fuzzing, statistics with shown power, whole pages of the documentation, committed tables, and files of
tests that take more than about seven seconds are `thorough`: together minutes. They run in CI and by `make thorough`,
not in `make test`, which has five minutes on two cores.
"""

import os
import signal
from pathlib import Path

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background work; what tests start would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

THOROUGH = (
    "audit/test_audit_command.py",
    "audit/test_other_twins.py",
    "audit/test_pool_audit.py",
    "bench/test_bench.py",
    "bench/test_committed_results.py",
    "bench/test_comparing.py",
    "bench/test_crowd_bench.py",
    "bench/test_dry_runs.py",
    "bench/test_paper_tables.py",
    "bench/test_public_data_bench.py",
    "bench/test_streams.py",
    "bench/test_teacher_bench.py",
    "campaign/test_campaign_failures.py",
    "campaign/test_campaign_redo.py",
    "campaign/test_campaign_replan.py",
    "campaign/test_hidden_commands.py",
    "campaign/test_hidden_releases.py",
    "campaign/test_stopping.py",
    "campaign/test_tampering.py",
    "campaign/test_withdrawal.py",
    "campaign/test_withdrawing.py",
    "cli/test_ledger_command.py",
    "cli/test_release_command.py",
    "cli/test_replan_command.py",
    "cli/test_select_command.py",
    "cli/test_startup.py",
    "cli/test_stream_command.py",
    "contracts/test_built_ins.py",
    "crash/",
    "docs/test_api_reference.py",
    "docs/test_blocks.py",
    "docs/test_documentation.py",
    "docs/test_examples.py",
    "exports/",
    "fuzz/",
    "gates/test_crowd_gate.py",
    "gates/test_gate_attack.py",
    "gates/test_gate_calibration.py",
    "gates/test_local_engine.py",
    "models/test_record_gradients.py",
    "noise/test_distributions.py",
    "noise/test_endless.py",
    "noise/test_exactness.py",
    "noise/test_lazy_top.py",
    "noise/test_top.py",
    "oracles/test_smooth_price.py",
    "oracles/test_teacher_attack.py",
    "oracles/test_teacher_oracle.py",
    "planning/test_individual_rates.py",
    "planning/test_plan_space.py",
    "planning/test_schedules.py",
    "privacy/certificate/test_verify.py",
    "privacy/ledger/test_exact_attack.py",
    "privacy/ledger/test_replanning_attack.py",
    "privacy/test_release_gate.py",
    "privacy/test_tuned_attack.py",
    "recipes/test_crowd_campaign.py",
    "recipes/test_every_schedule.py",
    "recipes/test_hidden_labels.py",
    "recipes/test_multilabel_campaign.py",
    "recipes/test_names_before_planning.py",
    "recipes/test_own_parts.py",
    "recipes/test_person_campaigns.py",
    "recipes/test_pool_apart.py",
    "recipes/test_public_data.py",
    "recipes/test_public_nonsense.py",
    "recipes/test_refusals_cost_nothing.py",
    "recipes/test_teacher_kinds.py",
    "recipes/test_teachers_campaign.py",
    "recipes/test_teachers_confirmed.py",
    "recipes/test_text_campaigns.py",
    "report/test_campaign_report.py",
    "report/test_plan_figure.py",
    "selectors/test_hidden_attack.py",
    "selectors/test_k_centre.py",
    "selectors/test_named_and_shards.py",
    "selectors/test_near_private.py",
    "selectors/test_selection_attack.py",
    "storage/test_abandoning.py",
    "storage/test_copying.py",
    "storage/test_damaged_stores.py",
    "storage/test_read_only.py",
    "storage/test_high_water_mark.py",
    "storage/test_row_macs.py",
    "storage/test_storage_contract.py",
    "storage/test_storage_kills.py",
    "stream/test_objective_perturbation.py",
    "stream/test_short_windows.py",
    "stream/test_stream_attack.py",
    "stream/test_stream_hostile.py",
    "stream/test_stream_neighbours.py",
    "stream/test_stream_persons.py",
    "stream/test_stream_terms.py",
    "testing/test_contracts.py",
    "testing/test_gate_contract.py",
    "testing/test_trainer_contract.py",
    "trainers/test_dp_classifier.py",
    "trainers/test_engine_layers.py",
    "trainers/test_plan_execution.py",
    "trainers/test_remove_one.py",
    "trainers/test_resume.py",
    "trainers/test_several_processes.py",
    "trainers/test_step_streams.py",
    "trainers/test_teachers.py",
    "trainers/test_text_training.py",
    "trainers/test_training_neighbours.py",
    "trainers/test_training_statistics.py",
    "tuning/test_private_search.py",
    "web/test_access_log.py",
    "web/test_connections.py",
    "web/test_owner_interface.py",
    "web/test_owner_pages.py",
    "web/test_web_attacks.py",
    "web/test_web_headers.py",
    "web/test_web_schema.py",
)


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        place = item.path.relative_to(here).as_posix()
        if place.startswith(THOROUGH) and "long" not in item.keywords:
            item.add_marker(pytest.mark.thorough)
