"""The pytest plugin, in separate runs of pytest: each test writes test files, runs them, and checks the results."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

TESTS = Path(__file__).parent.parent
UNUSED = "-p no:hypothesispytest -p no:trio -p no:anyio"  # plugins that would take a third of the time of such a run
EXAMPLES = sorted((TESTS.parent / "examples").glob("test_*.py"))


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    shutil.copy(TESTS / "plain_client.py", pytester.path)
    pytester.makeini(
        f"[pytest]\nfilterwarnings = error\naddopts = --strict-markers -p no:cacheprovider {UNUSED}\npythonpath = ."
    )
    return pytester.runpytest_subprocess(*arguments, timeout=60)


ISOLATION = """
    import pytest
    from plain_client import PlainClient

    former = []

    @pytest.mark.kafka(topics={"orders": 2}, config={"num.partitions": 5})
    def test_one(kafka_cluster):
        kafka_cluster.produce("orders", ["a", "b"])
        client, parked = PlainClient(kafka_cluster.bootstrap_servers), PlainClient(kafka_cluster.bootstrap_servers)
        client.join("g")
        client.lead("g", "orders", [0, 1])
        client.commit("g", "orders", 0, 1)
        parked.send_join("g")
        kafka_cluster.wait_group("g", state="PreparingRebalance", members=2)
        former.extend([kafka_cluster, client, parked])

    def test_two(kafka_cluster):
        old, client, parked = former
        assert kafka_cluster.bootstrap_servers != old.bootstrap_servers
        for late in (lambda: parked.answer(), lambda: client.join("g")):
            with pytest.raises(ConnectionError):
                late()
        with pytest.raises(ConnectionRefusedError):
            PlainClient(old.bootstrap_servers)
        with pytest.raises(RuntimeError, match="a test that has finished"):
            old.create_topic("late")
        with pytest.raises(LookupError, match="existing topics: none"):
            kafka_cluster.records("orders")
        assert (kafka_cluster.groups(), kafka_cluster.events(), kafka_cluster.requests()) == ({}, [], [])
        assert kafka_cluster.committed("g") == {}
        client.sock.close()
        parked.sock.close()

    @pytest.mark.kafka(topics={"orders": 2})
    def test_three(kafka_cluster):
        assert kafka_cluster.records("orders") == []
        assert kafka_cluster._thread is former[0]._thread  # started once
"""


def test_one_test_leaves_nothing_to_the_next(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(ISOLATION)
    run(pytester).assert_outcomes(passed=3)


MARKS = """
    import pytest
    from kwire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
    from kwire.messages.metadata import MetadataRequest
    from plain_client import PlainClient

    def topics(cluster):
        with PlainClient(cluster.bootstrap_servers) as client:
            answer = client.ask(MetadataRequest(topics=None), 9)
        return len(answer.brokers), {t.name: len(t.partitions) for t in answer.topics if not t.is_internal}

    @pytest.mark.kafka(topics={"orders": 6, "bills": 1}, config={"auto.create.topics.enable": False})
    class TestMarks:
        def test_of_the_class(self, kafka_cluster):
            assert topics(kafka_cluster) == (1, {"orders": 6, "bills": 1})

        @pytest.mark.kafka(topics={"orders": 2}, brokers=3)
        def test_of_the_test_wins(self, kafka_cluster):
            assert topics(kafka_cluster) == (3, {"orders": 2, "bills": 1})
            assert len(kafka_cluster.bootstrap_servers.split(",")) == 3

    def test_none(kafka_cluster):
        assert topics(kafka_cluster) == (1, {})

    def test_a_join_does_not_wait(kafka_cluster):
        with PlainClient(kafka_cluster.bootstrap_servers) as client:
            client.sock.settimeout(1)
            assert client.join("g").generation_id == 1

    @pytest.mark.kafka(listeners=["PLAINTEXT", "SASL_SSL"], users={"alice": "secret"})
    def test_listeners(kafka_cluster):
        assert list(kafka_cluster.listeners) == ["PLAINTEXT", "SASL_SSL"]
        assert kafka_cluster.tls.ca.exists()
        with PlainClient(kafka_cluster.listeners["PLAINTEXT"]) as client:
            (alice,) = client.ask(DescribeUserScramCredentialsRequest(users=None), 0).results
        assert alice.user == "alice"

    def test_users_of_another_test(kafka_cluster):
        with PlainClient(kafka_cluster.bootstrap_servers) as client:
            assert client.ask(DescribeUserScramCredentialsRequest(users=None), 0).results == []

    def test_factory(kafka_cluster, kafka_cluster_factory):
        one, three = kafka_cluster_factory(topics={"orders": 1}), kafka_cluster_factory(brokers=3)
        assert topics(one) == (1, {"orders": 1})
        assert topics(three) == (3, {})
        assert len({kafka_cluster.bootstrap_servers, one.bootstrap_servers, three.bootstrap_servers}) == 3
        test_factory.made = one

    def test_factory_clusters_are_closed(kafka_cluster):
        with pytest.raises(RuntimeError, match="the cluster is closed"):
            test_factory.made.events()
"""


def test_marks_and_factory(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(MARKS)
    run(pytester).assert_outcomes(passed=8)


OWN_CLUSTERS = """
    import socket
    from pathlib import Path

    import pytest
    from kwire.messages.api_versions import ApiVersionsRequest
    from plain_client import PlainClient

    def free_port():
        with socket.create_server(("127.0.0.1", 0)) as listening:
            return listening.getsockname()[1]

    PORT = free_port()

    def newest_join(cluster):
        with PlainClient(cluster.bootstrap_servers) as client:
            keys = client.ask(ApiVersionsRequest(), 0).api_keys
        return {each.api_key: each.max_version for each in keys}[11]

    @pytest.mark.kafka(as_version="2.8", topics={"orders": 1})
    class TestRelease:
        def test_of_the_class(self, kafka_cluster):
            assert newest_join(kafka_cluster) == 7
            assert kafka_cluster.produce("orders", ["a"]) == [0]

        @pytest.mark.kafka(as_version="4.2")
        def test_of_the_test_wins(self, kafka_cluster):
            assert newest_join(kafka_cluster) == 9

        def test_is_new(self, kafka_cluster):
            assert kafka_cluster.records("orders") == []

    def test_default(kafka_cluster):
        assert newest_join(kafka_cluster) == 9

    @pytest.mark.kafka(port=PORT, config={"group.max.size": 2})
    @pytest.mark.parametrize("number", [1, 2])
    def test_port(kafka_cluster, number):
        assert kafka_cluster.bootstrap_servers == f"127.0.0.1:{PORT}"
        with PlainClient(kafka_cluster.bootstrap_servers) as client:
            assert client.join("g").generation_id == 1

    @pytest.mark.kafka(data_dir="state", topics={"orders": 1})
    def test_data_dir(kafka_cluster, tmp_path):
        kafka_cluster.produce("orders", ["a"])
        assert (tmp_path / "state" / "mockbroker.json").exists()

    def test_factory(kafka_cluster_factory, tmp_path):
        one = kafka_cluster_factory(data_dir=tmp_path, topics={"orders": 1}, as_version="2.8", port=PORT)
        one.produce("orders", ["a"])
        assert newest_join(one) == 7
        assert one.bootstrap_servers == f"127.0.0.1:{PORT}"

    @pytest.mark.kafka(as_version="0.8")
    def test_unknown_release(kafka_cluster): ...

    @pytest.mark.kafka(data_dir="state")
    def test_report(kafka_cluster):
        with PlainClient(kafka_cluster.bootstrap_servers) as client:
            client.join("shipping")
        assert kafka_cluster.groups() == {}
"""


def test_own_clusters(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(OWN_CLUSTERS)
    result = run(pytester)
    result.assert_outcomes(passed=8, failed=1, errors=1)
    result.stdout.fnmatch_lines(
        ["*SettingsError: as_version '0.8' is unknown*", "*- Kafka groups -*", "* join *shipping *"]
    )


WRONG = """
    import pytest

    @pytest.mark.kafka(topic={"orders": 6})
    def test_word(kafka_cluster): ...

    @pytest.mark.kafka({"orders": 6})
    def test_position(kafka_cluster): ...

    @pytest.mark.kafka(config={"num.partition": 6})
    def test_setting(kafka_cluster): ...

    def test_body(kafka_cluster):
        raise KeyError("mine")

    def test_after(kafka_cluster):
        assert kafka_cluster.events() == []
"""


def test_invalid_marks_are_reported(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(WRONG)
    result = run(pytester)
    result.assert_outcomes(passed=1, failed=1, errors=3)
    result.stdout.fnmatch_lines(
        [
            "*TypeError: invalid argument of @pytest.mark.kafka: topic; expected keyword arguments: as_version, brokers, *",
            "*SettingsError: unknown setting num.partition; did you mean num.partitions?",
            "E *KeyError: 'mine'",
        ]
    )
    result.stdout.no_fnmatch_line("*ExceptionGroup*")


FAILING = """
    import pytest
    from plain_client import PlainClient

    @pytest.mark.kafka(topics={"orders": 2})
    def test_waits(kafka_cluster):
        with PlainClient(kafka_cluster.bootstrap_servers) as client:
            client.join("billing")
            kafka_cluster.wait_group("billing", members=3, timeout=0.05)

    def test_other(kafka_cluster):
        with PlainClient(kafka_cluster.bootstrap_servers) as client:
            client.join("shipping")
            assert client.generation == 2
"""


def test_report_of_a_failed_test_shows_group_events(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FAILING)
    result = run(pytester)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            ">*wait_group(*billing*",
            "E *WaitTimeoutError: timed out after 0.05 s waiting for group 'billing' to be Stable with 3 members",
            "E * the group is CompletingRebalance: generation 1, protocol range, 1 member",
            "E *events:",
            "E * s  join *billing  client=plain  member_id=plain-*",
            "E * s  generation *",
            "*assert client.generation == 2",
            "*- Kafka groups -*",
            "* s  join *shipping *",
        ]
    )
    result.stdout.no_fnmatch_line("*cluster_thread.py:*")  # frames of mockbroker are hidden


FAULTS = """
    import pytest
    from plain_client import PlainClient

    REFUSED = {"api": "JoinGroup", "error": "GROUP_MAX_SIZE_REACHED"}
    JSON_FORM = {"name": "gate", "match": {"api": "JoinGroup", "group": "h"}, "action": {"hold": True}}

    def join(cluster):
        with PlainClient(cluster.bootstrap_servers) as client:
            return client.join("g").error_code

    @pytest.mark.kafka(faults=[REFUSED])
    def test_of_the_mark(kafka_cluster):
        assert join(kafka_cluster) == 81
        assert join(kafka_cluster) == 0
        assert [state.applied for state in kafka_cluster.faults.states()] == [1]
        kafka_cluster.reset()  # restores the rule, with new counters
        assert join(kafka_cluster) == 81

    def test_of_the_mark_is_gone(kafka_cluster):
        assert join(kafka_cluster) == 0
        assert kafka_cluster.faults.states() == []

    def test_of_the_factory(kafka_cluster_factory):
        assert join(kafka_cluster_factory(faults=[REFUSED])) == 81

    @pytest.mark.kafka(faults=[JSON_FORM | {"optional": True}])
    def test_optional(kafka_cluster):
        assert join(kafka_cluster) == 0

    @pytest.mark.kafka(faults=[JSON_FORM])
    def test_never_applied(kafka_cluster):
        assert join(kafka_cluster) == 0

    def test_removed_and_never_applied(kafka_cluster):
        with kafka_cluster.faults.error("JoinGroup", "GROUP_MAX_SIZE_REACHED", skip=1):
            assert join(kafka_cluster) == 0

    def test_in_the_factory(kafka_cluster_factory):
        kafka_cluster_factory().faults.add(on="connect", disconnect="before")

    @pytest.mark.kafka(faults=[{"group": "other", "error": "NOT_COORDINATOR"}])
    def test_any_api(kafka_cluster):
        assert join(kafka_cluster) == 0

    @pytest.mark.kafka(faults=[JSON_FORM])
    def test_that_fails_itself(kafka_cluster):
        assert join(kafka_cluster) == 1

    @pytest.mark.kafka(faults=[JSON_FORM])
    def test_that_is_skipped(kafka_cluster):
        pytest.skip("late")
"""


def test_rule_that_was_never_applied_fails_its_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FAULTS)
    result = run(pytester)
    result.assert_outcomes(passed=4, failed=5, skipped=1)
    result.stdout.fnmatch_lines(
        [
            "_* test_never_applied _*",
            "fault rule gate was never applied: 0 requests matched it",
            '  match: {"api": "JoinGroup", "group": "h"}',
            '  action: {"hold": true}',
            "  JoinGroup requests: 1",
            '   * s  JoinGroup v*  client=plain  {"group_id": "g", *',
            "  a rule that need not be applied is added with optional=True",
            "_* test_removed_and_never_applied _*",
            "fault rule fault-1 was never applied: 1 requests matched it",
            '  occurrence: {"skip": 1}',
            "_* test_in_the_factory _*",
            "fault rule fault-1 was never applied: 0 new connections matched it",
            "_* test_any_api _*",
            "  requests: 1 JoinGroup",
            "_* test_that_fails_itself _*",
            "E *assert 0 == 1",
        ]
    )
    result.stdout.no_fnmatch_line("*Error at *")


DYING = """
    def test_dies(kafka_cluster):
        async def die():
            raise OSError("out of order")

        thread = kafka_cluster._thread
        thread._token.run_sync_soon(thread._nursery.start_soon, die)

    def test_next(kafka_cluster):
        assert kafka_cluster.groups() == {}

    def test_dies_under_a_call(kafka_cluster):
        test_dies(kafka_cluster)
        kafka_cluster.wait_group("g")
"""


def test_a_broker_that_dies_fails_the_test_with_its_traceback(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(DYING)
    result = run(pytester)
    result.assert_outcomes(passed=2, failed=1, errors=2)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_dies *", "*OSError: out of order"])
    result.stdout.fnmatch_lines(["*ClusterClosedError: the broker's thread has died: *"])


LEFT = """
    import os, sys, threading

    def pytest_unconfigure():
        threads = [thread.name for thread in threading.enumerate() if thread.name == "mockbroker"]
        open_files = [os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{n}")]
        print("left", threads, [name for name in open_files if name.startswith("socket")])
        print("imported", sorted({"kwire", "mockbroker.api.cluster", "mockbroker.pytest_plugin"} & set(sys.modules)))
"""


def test_nothing_is_left_at_the_end(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(LEFT)
    pytester.makepyfile("def test_one(kafka_cluster, kafka_cluster_factory):\n    kafka_cluster_factory(brokers=3)")
    result = run(pytester, "-s")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["left [[]] [[]]"])


MEMORY = """
    import gc

    import pytest

    from mockbroker.broker.broker import Broker

    def brokers():
        gc.collect()
        return sum(isinstance(each, Broker) for each in gc.get_objects())

    def test_factory(kafka_cluster_factory):
        kafka_cluster_factory()

    @pytest.mark.kafka(as_version="3.9")
    def test_own_thread(kafka_cluster):
        pass

    def test_failure(kafka_cluster_factory):
        kafka_cluster_factory().wait_group("g", timeout=0)

    def test_brokers():
        assert brokers() == 0
"""


def test_closed_clusters_are_not_kept_in_memory(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(MEMORY)
    result = run(pytester)
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["FAILED *::test_failure - *"])


def test_plugin_is_loaded_only_when_used(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(LEFT)
    pytester.makepyfile("def test_one(): ...")
    result = run(pytester, "-s", "--markers")
    result.stdout.fnmatch_lines(
        ["@pytest.mark.kafka(topics=None, config=None, brokers=1, *", "imported ['kwire', 'mockbroker.pytest_plugin']"]
    )
    result = run(pytester, "-s")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["imported ['kwire', 'mockbroker.pytest_plugin']"])


SHARED = """
    import pytest
    from plain_client import PlainClient

    @pytest.mark.parametrize("number", range(8))
    @pytest.mark.kafka(topics={"orders": 1})
    def test_alone(kafka_cluster, number, worker_id, record_property):
        assert worker_id in ("gw0", "gw1")
        assert kafka_cluster.produce("orders", ["a"]) == [0]
        with PlainClient(kafka_cluster.bootstrap_servers) as client:
            assert client.join("g").generation_id == 1
        assert kafka_cluster.requests("JoinGroup")[0].body.group_id == "g"
"""


def test_workers_of_xdist_have_brokers_of_their_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SHARED)
    run(pytester, "-n", "2").assert_outcomes(passed=8)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(pytester: pytest.Pytester, example: Path) -> None:
    shutil.copy(example, pytester.path)
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider")
    pytester.runpytest_subprocess(timeout=60).assert_outcomes(passed=1)


def test_a_torture_case_that_does_not_exist_is_an_error(pytester: pytest.Pytester) -> None:
    """Otherwise, a misspelled name would leave the test without a case, and it would be skipped."""
    pytester.makepyfile("""
        import pytest

        @pytest.mark.kafka_torture("HTTP", "Metadata-hlaf")
        def test_my_client(kafka_torture): ...
    """)
    result = run(pytester)
    assert result.ret == pytest.ExitCode.USAGE_ERROR or result.parseoutcomes() == {"errors": 1}
    result.stdout.fnmatch_lines(["*kafka_torture: no case has the name 'Metadata-hlaf': mockbroker torture --list *"])


def test_invalid_argument_of_the_torture_mark(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest

        @pytest.mark.kafka_torture("HTTP", sed=3)
        def test_my_client(kafka_torture): ...
    """)
    result = run(pytester)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*kafka_torture: invalid argument sed; expected names of cases, and seed*"])
