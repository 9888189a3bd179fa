"""Bugs to be planted, each of which breaks one rule of Kafka: a test of the named file has to notice it.

Bugs of the coordinator that the simulator notices are in tests/mockbroker/lab/simulation/planted*.py; slow code is in
planted.py. ``make planted`` plants all of these and prints the table.
"""

from __future__ import annotations

from typing import NamedTuple


class RuleBug(NamedTuple):
    """A change of the text ``old``, which is in ``module`` once, to ``new``.

    Attributes:
        what: the bug, in a few words.
        rule: where the rule is from: a KIP, or a class of Kafka.
        module: path of the module.
        old: the text that is replaced.
        new: the text in its place, with as many lines.
        tests: path of the file, or folder, whose tests notice the bug.
    """

    what: str
    rule: str
    module: str
    old: str
    new: str
    tests: str


GROUPS, SHARE, TESTS = "mockbroker/groups", "mockbroker/share", "tests/mockbroker"
ACLS, HANDLERS = f"{TESTS}/security/test_standard_authorizer.py", f"{TESTS}/broker/handlers"
TRANSACTIONS = "mockbroker/transactions"
REGISTRY = f"{TESTS}/transactions"
CLASSIC, CONSUMER = f"{TESTS}/groups/classic", f"{TESTS}/groups/consumer"

RULE_BUGS = (
    # --- members of classic groups ---
    RuleBug(
        "a heartbeat of another generation is accepted",
        "KIP-134, ClassicGroup.validateMember",
        f"{GROUPS}/classic/rules.py",
        "return ILLEGAL_GENERATION if event.generation != group.generation else NONE",
        "return ILLEGAL_GENERATION if event.generation > group.generation else NONE",
        CLASSIC,
    ),
    RuleBug(
        "a sync during the join phase is accepted",
        "GroupMetadataManager.classicGroupSync",
        f"{GROUPS}/classic/rules.py",
        "return REBALANCE_IN_PROGRESS if group.state is PREPARING else NONE",
        "return NONE if group.state is PREPARING else NONE",
        CLASSIC,
    ),
    RuleBug(
        "a commit without a member is accepted by a group with members",
        "ClassicGroup.validateOffsetCommit",
        f"{GROUPS}/classic/rules.py",
        "    if event.generation < 0 and group.state is EMPTY:",
        "    if event.generation < 0:",
        CLASSIC,
    ),
    RuleBug(
        "the first join needs no member id",
        "KIP-394",
        f"{GROUPS}/classic/join.py",
        "            if event.require_member_id",
        "            if not event.require_member_id",
        CLASSIC,
    ),
    RuleBug(
        "a returning static member is a new member",
        "KIP-345",
        f"{GROUPS}/classic/join.py",
        "    if event.instance_id in group.static_members:",
        "    if event.instance_id not in group.static_members:",
        CLASSIC,
    ),
    RuleBug(
        "leaving does not end the wait of the others",
        "ClassicGroup.canRebalance, DelayedJoin",
        f"{GROUPS}/classic/leave.py",
        "    elif group.state is PREPARING:",
        "    elif group.state is not PREPARING:",
        CLASSIC,
    ),
    RuleBug(
        "a pending member cannot leave",
        "KIP-394, GroupMetadataManager.classicGroupLeave",
        f"{GROUPS}/classic/leave.py",
        "        if leaving.member_id in group.pending_members:",
        "        if leaving.member_id in group.pending_sync_members:",
        CLASSIC,
    ),
    RuleBug(
        "the assignment of a follower is sent to no member",
        "GroupMetadataManager.classicGroupSync",
        f"{GROUPS}/classic/sync.py",
        "    if member.member_id == group.leader:",
        "    if member.member_id != group.leader:",
        CLASSIC,
    ),
    # --- members of consumer groups ---
    RuleBug(
        "a commit with an old member epoch is accepted",
        "KIP-848, ConsumerGroup.validateMemberEpoch",
        f"{GROUPS}/consumer/commit_rules.py",
        "    if epoch == member.epoch:",
        "    if epoch <= member.epoch:",
        CONSUMER,
    ),
    RuleBug(
        "OffsetCommit v8 of a member of the consumer protocol is accepted",
        "KIP-848, ConsumerGroup.validateOffsetCommit",
        f"{GROUPS}/consumer/commit_rules.py",
        "    if member.classic is None and not event.supports_member_epochs:",
        "    if member.classic is None and event.supports_member_epochs is None:",
        CONSUMER,
    ),
    RuleBug(
        "a member keeps its partitions while it revokes",
        "KIP-848, CurrentAssignmentBuilder",
        f"{GROUPS}/consumer/reconcile.py",
        "    if member.state is UNREVOKED and inputs.owns_any(member.pending_revocation):",
        "    if member.state is UNREVOKED and not inputs.owns_any(member.pending_revocation):",
        CONSUMER,
    ),
    RuleBug(
        "a partition that another member owns is assigned",
        "KIP-848, CurrentAssignmentBuilder.computeNextAssignment",
        f"{GROUPS}/consumer/reconcile.py",
        "        if partition not in inputs.partition_epochs or",
        "        if partition in inputs.partition_epochs or",
        CONSUMER,
    ),
    # --- share groups ---
    RuleBug(
        "a member of a share group with an old epoch is not fenced",
        "KIP-932, GroupMetadataManager.throwIfShareGroupMemberEpochIsInvalid",
        f"{GROUPS}/share/machine.py",
        "    elif epoch in (member.epoch, member.previous_epoch):",
        "    elif epoch <= member.epoch:",
        f"{TESTS}/groups/share",
    ),
    RuleBug(
        "offsets of a share group with members can be altered",
        "KIP-932, GroupCoordinatorService.alterShareGroupOffsets",
        f"{GROUPS}/share/offsets.py",
        "    if not group.empty:",
        "    if group.empty is None:",
        f"{HANDLERS}/test_alter_share_group_offsets.py",
    ),
    RuleBug(
        "an old epoch of a share session is accepted",
        "KIP-932, SharePartitionManager.acknowledgeSessionUpdate",
        f"{SHARE}/sessions.py",
        "        if epoch not in (FINAL_EPOCH, session.epoch):",
        "        if epoch != FINAL_EPOCH and epoch > session.epoch:",
        f"{TESTS}/share/test_sessions.py",
    ),
    RuleBug(
        "a former leader of a share partition writes its state",
        "KIP-932, ShareCoordinatorShard.maybeGetWriteStateError",
        f"{SHARE}/states.py",
        "        if state.leader_epoch > leader_epoch:",
        "        if state.leader_epoch < leader_epoch:",
        f"{TESTS}/share/test_states.py",
    ),
    RuleBug(
        "an older state epoch replaces the state of a share partition",
        "KIP-932, ShareCoordinatorShard.maybeGetInitializeStateError",
        f"{SHARE}/states.py",
        "        if before is not None and ANY_EPOCH < state_epoch < before.state_epoch:",
        "        if before is not None and ANY_EPOCH > state_epoch > before.state_epoch:",
        f"{TESTS}/share/test_states.py",
    ),
    RuleBug(
        "an acknowledgement may end after the last record in flight",
        "KIP-932, SharePartition.acknowledge",
        f"{SHARE}/acknowledge.py",
        "        return LAST_PAST if batch.last > found[-1].last else found",
        "        return found",
        f"{TESTS}/share/test_acknowledge.py",
    ),
    RuleBug(
        "records of another member are acknowledged",
        "KIP-932, SharePartition.acknowledge",
        f"{SHARE}/acknowledge.py",
        "            if whole.member_id == NO_MEMBER:",
        "            if whole.member_id != NO_MEMBER:",
        f"{TESTS}/share/test_acknowledge.py",
    ),
    RuleBug(
        "more records than allowed are acquired",
        "KIP-932, SharePartition.acquire",
        f"{SHARE}/acquire.py",
        "        return self.max_records - self.count",
        "        return self.max_records + self.count",
        f"{TESTS}/share/test_acquire.py",
    ),
    RuleBug(
        "records before the start of a share partition are acquired",
        "KIP-932, SharePartition.acquire",
        f"{SHARE}/acquire.py",
        "batches[-1].last_offset < partition.start:",
        "batches[-1].last_offset < 0:",
        f"{TESTS}/share/test_acquire.py",
    ),
    # --- streams groups ---
    RuleBug(
        "a streams group does not wait for its first members",
        "KIP-1071, group.streams.initial.rebalance.delay.ms",
        f"{GROUPS}/streams/machine.py",
        "    if was_empty and settings.initial_rebalance_delay > 0",
        "    if was_empty and settings.initial_rebalance_delay < 0",
        f"{TESTS}/groups/streams",
    ),
    RuleBug(
        "a request to shut down the application is ignored",
        "KIP-1071, StreamsGroup.setShutdownRequestMemberId",
        f"{GROUPS}/streams/machine.py",
        "        group.shutdown_by = member.member_id",
        "        group.shutdown_by = None",
        f"{TESTS}/groups/streams",
    ),
    # --- transactions ---
    RuleBug(
        "a producer with another epoch gets an epoch",
        "KIP-360, TransactionCoordinator.isValidProducerId",
        f"{TRANSACTIONS}/rules.py",
        "    if expected is not None and not _matches(txn, expected):",
        "    if expected is None and not _matches(txn, expected):",
        REGISTRY,
    ),
    RuleBug(
        "InitProducerId while the transaction is being completed",
        "KIP-98, TransactionCoordinator.prepareInitProducerIdTransit",
        f"{TRANSACTIONS}/rules.py",
        "    return ErrorCode.CONCURRENT_TRANSACTIONS if txn.state in PREPARED else NONE\n\n\ndef _matches",
        "    return NONE\n\n\ndef _matches",
        REGISTRY,
    ),
    RuleBug(
        "another producer id may add partitions",
        "KIP-98, TransactionCoordinator.handleAddPartitionsToTransaction",
        f"{TRANSACTIONS}/rules.py",
        "    if txn is None or producer.producer_id != txn.producer_id:",
        "    if txn is None:",
        REGISTRY,
    ),
    RuleBug(
        "a fenced producer may add partitions",
        "KIP-98, TransactionCoordinator.handleAddPartitionsToTransaction",
        f"{TRANSACTIONS}/rules.py",
        "    return NONE if producer.epoch == txn.epoch else ErrorCode.PRODUCER_FENCED",
        "    return NONE if producer.epoch <= txn.epoch else ErrorCode.PRODUCER_FENCED",
        REGISTRY,
    ),
    RuleBug(
        "a partition that was not added is verified",
        "KIP-890, TransactionCoordinator.handleVerifyPartitionsInTransaction",
        f"{TRANSACTIONS}/rules.py",
        "    return NONE if partition in txn.partitions else ErrorCode.TRANSACTION_ABORTABLE",
        "    return NONE if txn.partitions else ErrorCode.TRANSACTION_ABORTABLE",
        REGISTRY,
    ),
    RuleBug(
        "a timeout above transaction.max.timeout.ms is accepted",
        "KIP-98, TransactionCoordinator.handleInitProducerId",
        f"{TRANSACTIONS}/registry.py",
        "        if not 0 < timeout_ms <= self._settings.transaction_max_timeout_ms:",
        "        if not 0 < timeout_ms:",
        f"{HANDLERS}/test_init_producer_id.py",
    ),
    RuleBug(
        "a new producer does not wait for the end of the old transaction",
        "KIP-98, TransactionCoordinator.prepareInitProducerIdTransit",
        f"{TRANSACTIONS}/registry.py",
        "            return ended._replace(error=ErrorCode.CONCURRENT_TRANSACTIONS, notes=[*notes, *ended.notes])",
        "            return ended._replace(error=ErrorCode.NONE, notes=[*notes, *ended.notes])",
        REGISTRY,
    ),
    # --- idempotent producers ---
    RuleBug(
        "a gap in sequence numbers is accepted",
        "KIP-98, ProducerAppendInfo.checkSequence",
        "mockbroker/topics/producers.py",
        "        if batch.base_sequence != (producer.last_sequence + 1) % SEQUENCES:",
        "        if batch.base_sequence < (producer.last_sequence + 1) % SEQUENCES:",
        f"{TESTS}/topics/test_producers.py",
    ),
    RuleBug(
        "a new epoch may begin with any sequence number",
        "KIP-98, ProducerAppendInfo.checkSequence",
        "mockbroker/topics/producers.py",
        "            return ErrorCode.NONE if batch.base_sequence == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER",
        "            return ErrorCode.NONE",
        f"{TESTS}/topics/test_producers.py",
    ),
    RuleBug(
        "a batch with an older epoch is appended",
        "KIP-98, ProducerAppendInfo.checkProducerEpoch",
        "mockbroker/topics/producers.py",
        "        if batch.producer_epoch < producer.epoch:",
        "        if batch.producer_epoch > producer.epoch + 1000:",
        f"{TESTS}/topics/test_producers.py",
    ),
    RuleBug(
        "a retried batch is appended again",
        "KIP-98, ProducerStateEntry.findDuplicateBatch",
        "mockbroker/topics/producers.py",
        "            if (appended.first_sequence, appended.last_sequence) == sequences:",
        "            if (appended.first_sequence, appended.last_sequence) is sequences:",
        f"{TESTS}/topics/test_producers.py",
    ),
    RuleBug(
        "a marker of a former transaction coordinator is written",
        "KIP-98, ProducerAppendInfo.checkCoordinatorEpoch",
        "mockbroker/topics/producers.py",
        "        if coordinator_epoch < producer.coordinator_epoch:",
        "        if coordinator_epoch > producer.coordinator_epoch + 10**6:",
        f"{TESTS}/topics/test_producers.py",
    ),
    # --- ACLs ---
    RuleBug(
        "an ACL that allows is stronger than one that denies",
        "KIP-11, StandardAuthorizerData.authorize",
        "mockbroker/security/standard_authorizer.py",
        "            if acl.permission == _DENY:",
        "            if acl.permission == _DENY and not allowed:",
        ACLS,
    ),
    RuleBug(
        "resources with ACLs are open to all",
        "KIP-11, allow.everyone.if.no.acl.found",
        "mockbroker/security/standard_authorizer.py",
        "        return allowed or (not has_acls and self._authorizer.everyone_without_acl)",
        "        return allowed or self._authorizer.everyone_without_acl",
        ACLS,
    ),
    RuleBug(
        "ACLs of others apply",
        "KIP-11, StandardAuthorizerData.findResult",
        "mockbroker/security/standard_authorizer.py",
        "            if not self._is_subject_of(acl):",
        "            if acl is None:",
        ACLS,
    ),
    RuleBug(
        "changed ACLs have no effect on open connections",
        "KIP-11, StandardAuthorizer.addAcl",
        "mockbroker/security/standard_authorizer.py",
        "        if self._version != self._acls.version:",
        "        if self._version > self._acls.version:",
        ACLS,
    ),
    RuleBug(
        "a filter with MATCH misses the wildcard",
        "KIP-290, AccessControlEntryFilter",
        "mockbroker/security/acl.py",
        "        return acl.name in (self.name, WILDCARD)",
        "        return acl.name == self.name",
        f"{TESTS}/security/test_acl.py",
    ),
    RuleBug(
        "DENY for the wildcard topic is not seen by idempotent producers",
        "KIP-679, Authorizer.authorizeByResourceType",
        "mockbroker/security/standard_authorizer.py",
        "        if (PatternType.LITERAL, WILDCARD) in denied:",
        "        if (PatternType.PREFIXED, WILDCARD) in denied:",
        ACLS,
    ),
    RuleBug(
        "a topic that may not be described is created",
        "KIP-277, KafkaApis.handleTopicMetadataRequest",
        "mockbroker/authorizer/special.py",
        "    return not auth.creates(name)",
        "    return auth.creates(name) is None",
        f"{TESTS}/authorizer/test_stage.py",
    ),
    # --- quotas ---
    RuleBug(
        "the throttle time is not limited by the window",
        "KIP-13, QuotaUtils.boundedThrottleTime",
        "mockbroker/quotas/connection_quotas.py",
        "        return min(round(rate.excess(limit, now), 3), self.limits.window)",
        "        return max(round(rate.excess(limit, now), 3), self.limits.window)",
        f"{TESTS}/quotas/test_connection_quotas.py",
    ),
    RuleBug(
        "connections of an address are unlimited",
        "KIP-402, max.connections.per.ip",
        "mockbroker/quotas/connection_quotas.py",
        "        return self._by_address[address] < self.limits.overrides.get(address, self.limits.per_ip)",
        "        return self._by_address[address] <= self.limits.overrides.get(address, self.limits.per_ip)",
        f"{TESTS}/quotas/test_connection_quotas.py",
    ),
    RuleBug(
        "a rate above the quota is not throttled",
        "KIP-13, QuotaUtils.throttleTime",
        "mockbroker/quotas/rates.py",
        "        return (rate - limit) / limit * self.window(now) if rate > limit else 0.0",
        "        return (rate - limit) / limit * self.window(now) if rate > 2 * limit else 0.0",
        f"{TESTS}/quotas/test_rates.py",
    ),
    RuleBug(
        "a quota of an address may be combined with a user",
        "KIP-612, ClientQuotaControlManager",
        "mockbroker/quotas/client_quotas.py",
        "    if IP in names and len(names) > 1:",
        "    if IP in names and len(names) > 2:",
        f"{TESTS}/quotas/test_client_quotas.py",
    ),
    RuleBug(
        "a quota of zero is accepted",
        "KIP-546, ClientQuotaControlManager.validateQuotaKeyValue",
        "mockbroker/quotas/client_quotas.py",
        "    if value <= 0:",
        "    if value < 0:",
        f"{TESTS}/quotas/test_client_quotas.py",
    ),
    # --- retention and compaction ---
    RuleBug(
        "topics with cleanup.policy=compact lose old segments",
        "KIP-71, UnifiedLog.deleteOldSegments",
        "mockbroker/topics/retention.py",
        "    if not config.delete:\n        return 0",
        "    if config is None:\n        return 0",
        f"{TESTS}/topics/test_retention.py",
    ),
    RuleBug(
        "retention.bytes deletes one segment too many",
        "LogConfig retention.bytes, UnifiedLog.deleteRetentionSizeBreachedSegments",
        "mockbroker/topics/log_segments.py",
        "        while count < deletable and segments[count].size <= excess:",
        "        while count < deletable and 0 < excess:",
        f"{TESTS}/topics/test_log_segments.py",
    ),
    RuleBug(
        "retention.ms deletes a segment at its last millisecond",
        "LogConfig retention.ms, UnifiedLog.deleteRetentionMsBreachedSegments",
        "mockbroker/topics/log_segments.py",
        "0 <= segments[count].largest_timestamp < now_ms - retention_ms:",
        "0 <= segments[count].largest_timestamp <= now_ms - retention_ms:",
        f"{TESTS}/topics/test_log_segments.py",
    ),
    RuleBug(
        "compaction ignores min.compaction.lag.ms",
        "KIP-58",
        "mockbroker/topics/cleanable.py",
        "closed[index].largest_timestamp > now_ms - min_lag_ms:",
        "closed[index].largest_timestamp > now_ms:",
        f"{TESTS}/topics/test_cleanable.py",
    ),
    RuleBug(
        "compaction keeps records of aborted transactions",
        "KIP-98, CleanedTransactionMetadata.onBatchRead",
        "mockbroker/topics/compaction.py",
        "        if (transaction := self._aborted.get(batch.producer_id)) is not None:",
        "        if (transaction := self._aborted.get(-1 - batch.producer_id)) is not None:",
        f"{TESTS}/topics/test_compaction.py",
    ),
    RuleBug(
        "compaction passes the last stable offset",
        "KIP-98, LogCleanerManager.cleanableOffsets",
        "mockbroker/topics/cleanable.py",
        "    if partition.last_stable >= log.segments[-1].base_offset:",
        "    if partition.last_stable >= 0:",
        f"{TESTS}/topics/test_cleanable.py",
    ),
    # --- logs and records ---
    RuleBug(
        "a fetch is larger than max.partition.fetch.bytes",
        "KIP-74, LocalLog.read",
        "mockbroker/topics/log.py",
        "            if size > limit and not (at_least_one and not parts):",
        "            if size - len(data) > limit and not (at_least_one and not parts):",
        f"{TESTS}/topics/test_log.py",
    ),
    RuleBug(
        "the epoch of a leader ends one epoch too late",
        "KIP-101, LeaderEpochFileCache.endOffsetFor",
        "mockbroker/topics/epochs.py",
        "            return (epoch, end) if self.entries and self.entries[-1][0] == epoch else UNKNOWN",
        "            return (epoch, end) if self.entries else UNKNOWN",
        f"{HANDLERS}/test_offset_for_leader_epoch.py",
    ),
    RuleBug(
        "records without a key are appended to a compacted topic",
        "LogValidator.validateRecord",
        "mockbroker/topics/record_rules.py",
        "        if rules.compacted and record.key is None:",
        "        if rules.compacted and record.key == b'':",
        f"{TESTS}/topics/test_record_rules.py",
    ),
    RuleBug(
        "timestamps of the future are accepted",
        "KIP-937, LogValidator.validateTimestamp",
        "mockbroker/topics/record_rules.py",
        "        if int64(-difference) <= rules.before_ms and difference <= rules.after_ms:",
        "        if int64(-difference) <= rules.before_ms:",
        f"{TESTS}/topics/test_record_rules.py",
    ),
    # --- sessions of Fetch ---
    RuleBug(
        "an old epoch of a fetch session is accepted",
        "KIP-227, FetchManager.newContext",
        "mockbroker/broker/fetch/session_cache.py",
        "        if session.epoch != request.session_epoch:",
        "        if session.epoch < request.session_epoch:",
        f"{TESTS}/broker/fetch/test_session_cache.py",
    ),
    RuleBug(
        "a session by topic ids may continue by names",
        "KIP-516, FetchManager.newContext",
        "mockbroker/broker/fetch/session_cache.py",
        "        if session.by_id != by_id:",
        "        if session.by_id is None:",
        f"{TESTS}/broker/fetch/test_session_cache.py",
    ),
    RuleBug(
        "a fetch with fewer bytes than min.bytes is answered at once",
        "KIP-41, DelayedFetch.tryComplete",
        "mockbroker/broker/fetch/delayed_fetch.py",
        "    return result.failed or result.size >= call.request.min_bytes",
        "    return result.failed or result.size > 0",
        f"{HANDLERS}/test_fetch.py",
    ),
    # --- authentication ---
    RuleBug(
        "a session continues after its end",
        "KIP-368, SaslServerAuthenticator",
        "mockbroker/broker/authentication.py",
        "        if now > self._expires_at:",
        "        if now < self._expires_at - 10**9:",
        f"{TESTS}/broker/test_authentication.py",
    ),
    RuleBug(
        "another user may authenticate on the same connection",
        "KIP-368, SaslServerAuthenticator.ReauthInfo",
        "mockbroker/broker/authentication.py",
        "        if self._previous_user and name != self._mechanism_name:",
        "        if not self._previous_user and name != self._mechanism_name:",
        f"{TESTS}/broker/test_authentication.py",
    ),
    RuleBug(
        "PLAIN accepts another authorization id",
        "KIP-43, PlainSaslServer.evaluateResponse",
        "mockbroker/broker/sasl/plain.py",
        "        if authorization and authorization != user:",
        "        if authorization and not user:",
        f"{TESTS}/broker/sasl/test_plain.py",
    ),
    RuleBug(
        "an OAuth token with a signature is accepted",
        "KIP-255, OAuthBearerUnsecuredValidatorCallbackHandler",
        "mockbroker/broker/sasl/oauthbearer.py",
        '    return claims if header is not None and header.get("alg") == "none" else None',
        "    return claims if header is not None else None",
        f"{TESTS}/broker/sasl/test_oauthbearer.py",
    ),
    # --- failover ---
    RuleBug(
        "an unclean leader is elected although it is disabled",
        "KIP-106, unclean.leader.election.enable",
        "mockbroker/broker/failover.py",
        '    if not effective(configs, "unclean.leader.election.enable", broker.settings, broker.release):',
        "    if configs is None:",
        f"{TESTS}/broker/test_failover.py",
    ),
    # --- fault rules ---
    RuleBug(
        "a fault rule is applied once too often",
        "docs/faults.md, times",
        "mockbroker/faults/occurrence.py",
        "self.applied >= self._occurrence.times)",
        "self.applied > self._occurrence.times)",
        f"{TESTS}/faults/test_occurrence.py",
    ),
    RuleBug(
        "every=n skips the wrong requests",
        "docs/faults.md, every",
        "mockbroker/faults/occurrence.py",
        "after_skip % self._occurrence.every or",
        "not after_skip % self._occurrence.every or",
        f"{TESTS}/faults/test_occurrence.py",
    ),
)
