"""Conversations that our own broker cannot hold yet, by name, and what each waits for.

What comes before the waiting part must be answered as recorded. One that passes is reported, so that it is taken out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Waiting:
    """``since``: the first step of the waiting part. ``anywhere``: not to be had from other brokers either."""

    what: str
    since: int
    anywhere: bool = False


KIP_848: Mapping[str, int] = {  # by scenario, the first step of the new protocol
    "kip848_assignors_are_voted_for": 1,
    "kip848_classic_does_not_come_back": 1,
    "kip848_classic_gives_up": 7,
    "kip848_classic_has_to_rejoin": 1,
    "kip848_classic_joins": 1,
    "kip848_classic_joins_in_every_version": 1,
    "kip848_classic_joins_wrongly": 1,
    "kip848_classic_leaves": 1,
    "kip848_classic_requests": 1,
    "kip848_classic_session_ends": 1,
    "kip848_classic_static": 1,
    "kip848_commits": 1,
    "kip848_commits_of_a_static_member": 1,
    "kip848_commits_to_an_empty_group": 1,
    "kip848_describe_errors": 1,
    "kip848_described_in_each_state": 1,
    "kip848_does_not_give_up": 1,
    "kip848_does_not_give_up_in_silence": 1,
    "kip848_downgrade_by_a_classic_leave": 1,
    "kip848_downgrade_by_a_static_member": 1,
    "kip848_downgrade_by_leaving": 1,
    "kip848_downgrade_by_timeout": 1,
    "kip848_downgrade_of_an_empty_group": 1,
    "kip848_epochs": 1,
    "kip848_epochs_while_revoking": 1,
    "kip848_errors": 1,
    "kip848_fetches": 1,
    "kip848_fields_in_version_0": 1,
    "kip848_fields_of_a_heartbeat": 1,
    "kip848_fields_of_a_join": 1,
    "kip848_full_requests": 1,
    "kip848_gives_up_in_two_steps": 1,
    "kip848_join_and_leave": 1,
    "kip848_joins_again_while_revoking": 1,
    "kip848_leaving": 1,
    "kip848_leaving_while_revoking": 1,
    "kip848_listed": 1,
    "kip848_lost_answer_of_a_join": 1,
    "kip848_max_size": 1,
    "kip848_migration_is_off": 7,
    "kip848_more_members_than_partitions": 1,
    "kip848_names_change": 1,
    "kip848_names_change_of_one_of_two": 1,
    "kip848_no_bump": 1,
    "kip848_no_downgrade": 7,
    "kip848_no_upgrade": 7,
    "kip848_null_is_not_empty": 1,
    "kip848_offsets_deleted": 1,
    "kip848_other_assignors": 1,
    "kip848_other_topics_do_not_matter": 1,
    "kip848_owns_nothing_to_give_up": 1,
    "kip848_protocol_of_an_id_changes": 1,
    "kip848_range": 1,
    "kip848_regex": 1,
    "kip848_regex_and_names": 1,
    "kip848_regex_changes": 1,
    "kip848_regex_cleared": 1,
    "kip848_regex_is_known_to_a_static_member": 1,
    "kip848_regex_is_wrong": 1,
    "kip848_regex_of_a_second_member": 1,
    "kip848_regex_sees_new_topics": 1,
    "kip848_regex_shared": 1,
    "kip848_regex_that_matches_nothing": 1,
    "kip848_session_ends": 1,
    "kip848_session_of_one_of_two": 1,
    "kip848_static_away_while_another_joins": 1,
    "kip848_static_comes_back": 1,
    "kip848_static_members": 1,
    "kip848_static_other_subscription": 1,
    "kip848_static_same_id_comes_back": 1,
    "kip848_static_stays_away": 1,
    "kip848_switched_off": 1,
    "kip848_target_changes_while_revoking": 1,
    "kip848_three_members": 1,
    "kip848_topic_comes_later": 1,
    "kip848_topic_goes": 4,
    "kip848_topic_grows": 4,
    "kip848_upgrade_of_a_group_that_is_too_big": 7,
    "kip848_upgrade_of_a_stable_group": 9,
    "kip848_upgrade_of_an_empty_group": 11,
    "kip848_upgrade_of_two": 17,
    "kip848_upgrade_refused": 7,
    "kip848_upgrade_while_completing": 15,
    "kip848_upgrade_while_preparing": 11,
    "kip848_which_error": 1,
    "kip848_worked_example": 1,
}

# By scenario, or by version and scenario.
WAITING: Mapping[str, Waiting] = {
    "3.9.1/api_versions": Waiting("message sets: Fetch v0-3", 2),
    "3.9.1/sasl_plain": Waiting("message sets: Fetch v0-3, and SASL", 2, anywhere=True),
    "fetch_holds": Waiting("fetch sessions", 30),
    "find_coordinator_versions": Waiting("transactions: a transactional key", 16),
    "sasl_plain": Waiting("SASL, on a listener of its own", 4, anywhere=True),
    "transactional_offsets": Waiting("transactions", 2),
} | {name: Waiting("KIP-848", since) for name, since in KIP_848.items()}


def waits(scenario: str, version: str) -> Waiting | None:
    """What the scenario, as recorded with this version of Kafka, waits for."""
    return WAITING.get(f"{version}/{scenario}") or WAITING.get(scenario)
