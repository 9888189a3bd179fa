"""The handler of AddRaftVoter v0-1, which rejects every request.

The voters of the mock cluster are static, as with ``controller.quorum.voters``.
"""

from __future__ import annotations

from kwire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.quorum import change_error


def handle(broker: Broker, call: Call[AddRaftVoterRequest], now: float) -> Effects:  # noqa: ARG001
    request = call.request
    voter = request.voter_id, request.voter_directory_id
    error, text = change_error(broker, request.cluster_id, voter, "adding")
    return [Reply(call.ticket, AddRaftVoterResponse(error_code=error, error_message=text))]
