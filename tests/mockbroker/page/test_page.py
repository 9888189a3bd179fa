"""The live page in a browser, while real clients use the broker."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import pytest
import trio
from click.testing import CliRunner
from effort import usual_and_long
from need import lacking
from plain_client import PlainClient, RawConnection
from tools.browser import AXE, axe_script, opened
from tools.consuming import consuming
from tools.ctl_process import Ctl, running, started
from tools.live_page import PATIENCE, VIEWS, LivePage, ManyMembers, free_port, get, live_page, post, wait_group

from kwire.cli import main as kwire
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kwire.messages.leave_group import LeaveGroupRequest
from kwire.messages.metadata import MetadataRequest
from mockbroker.consumer import open_share_consumer

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>'\"&\u202e\u0007"
MINUTES = 600  # session timeout in seconds, longer than the tests take on a slow machine
QUICK_VIEWS = ["groups", "faults"]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with opened() as browser:
        yield browser


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, browser: Any) -> Iterator[Ctl]:
    with running(tmp_path_factory.mktemp("broker"), "--topic", "many:100", "--brokers", "1") as broker:
        yield broker


@pytest.fixture(scope="module")
def axe() -> str:
    return axe_script()


# --- the lanes ---


def owner_intervals(events: list[dict[str, Any]], *, eager: bool) -> set[tuple[str, int, int | None]]:
    """Return the intervals in which each partition had the same owner. ``eager``: members revoke all partitions when
    they rejoin."""
    owners: dict[str, tuple[str, int]] = {}
    result = set[tuple[str, int, int | None]]()

    def release(time: int, names: list[str]) -> None:
        for name in names:
            result.add((name, owners.pop(name)[1], time))

    for event in events:
        member, time = event["member_id"], event["time_ms"]
        mine = [name for name, (owner, _) in owners.items() if owner == member]
        if event["kind"] in ("leave", "expire") or (event["kind"] == "rejoin" and eager):
            release(time, mine)
        if event["kind"] == "assign":
            assigned = [f"{topic}-{index}" for topic, indexes in event["assignment"].items() for index in indexes]
            release(time, [name for name in mine if name not in assigned])
            release(time, [name for name in assigned if name in owners and name not in mine])
            owners |= {name: (member, time) for name in assigned if name not in owners}
    return result | {(name, begin, None) for name, (_, begin) in owners.items()}


def owned_intervals(events: list[dict[str, Any]]) -> set[tuple[str, int, int | None]]:
    """Return the intervals in which each member owned partitions, according to the journal of a group with an eager
    protocol."""
    since: dict[str, int] = {}
    result = set[tuple[str, int, int | None]]()
    for event in events:
        member, time = event["member_id"], event["time_ms"]
        if event["kind"] in ("assign", "rejoin", "leave", "expire") and member in since:
            result.add((member, since.pop(member), time))
        if event["kind"] == "assign" and event.get("assignment"):
            since[member] = time
    return result | {(member, time, None) for member, time in since.items()}


def journal(broker: Ctl, group: str) -> list[dict[str, Any]]:
    return list(get(broker, "/v1/events", group=group, limit=1000)["items"])


def exported(page: LivePage) -> list[dict[str, str]]:
    """Return the attributes of the bars in the SVG file that the page saves."""
    with page.tab.expect_download() as download:
        page.click("Save as SVG")
    root = ElementTree.parse(download.value.path()).getroot()
    return [dict(rect.attrib) for rect in root.iter(f"{SVG}rect") if "data-lane" in rect.attrib]


def bars(page: LivePage, *styles: str) -> set[tuple[str, int, int | None]]:
    return {
        (each["data-lane"], int(each["data-begin"]), int(each["data-end"]) if each["data-end"] else None)
        for each in exported(page)
        if each["class"].split()[0] in styles
    }


def check_bars(page: LivePage, journal: Callable[[], set[tuple[str, int, int | None]]]) -> None:
    """Check that the bars of owners match the journal, as soon as both have the last event of the group."""
    deadline = time.monotonic() + PATIENCE / 1000
    while (drawn := bars(page, "owns")) != (expected := journal()) and time.monotonic() < deadline:
        page.tab.wait_for_timeout(100)
    assert drawn == expected
    assert len(expected) >= 4


def test_lanes_of_real_clients_equal_the_journal(browser: Any, broker: Ctl) -> None:
    with (
        live_page(browser, broker, "#/groups/lanes?span=1800000") as page,
        consuming(broker.servers, "lanes", "orders", "a", "b", "c") as members,
    ):
        wait_group(broker, "lanes", 3)
        members[2].close()
        wait_group(broker, "lanes", 2)
        check_bars(page, lambda: owned_intervals(journal(broker, "lanes")))
        page.click("By partition")
        page.wait_text("orders-0", ".lane-label")
        check_bars(page, lambda: owner_intervals(journal(broker, "lanes"), eager=True))
        assert bars(page, "unowned")  # between two generations
        assert [each["class"] for each in exported(page)].count("owns c0") >= 1


PROTOCOLS = [{"partition.assignment.strategy": "cooperative-sticky"}, {"group.protocol": "consumer"}]


@pytest.mark.parametrize("config", usual_and_long([], PROTOCOLS), ids=str)
def test_lanes_of_incremental_rebalances_equal_the_journal(browser: Any, broker: Ctl, config: dict[str, str]) -> None:
    group = next(iter(config.values()))
    if group == "consumer":  # session timeout and heartbeat interval are broker settings
        config = {**config, "heartbeat.interval.ms": ""}
    with (
        live_page(browser, broker, f"#/groups/{group}?span=1800000&by=partition") as page,
        consuming(broker.servers, group, "orders", "a", "b", "c", **config) as members,
    ):
        wait_group(broker, group, 3)
        members[2].close()
        wait_group(broker, group, 2)
        check_bars(page, lambda: owner_intervals(journal(broker, group), eager=False))


def test_owners_have_the_names_of_their_lanes(browser: Any, broker: Ctl) -> None:
    with PlainClient(broker.servers, client_id="owner") as client:
        client.join("owned")
        client.lead("owned", "orders", [0])
        with live_page(browser, broker, "#/groups/owned") as page:
            page.wait_text(re.compile("^owner$"), "[aria-label=Partitions] td >> nth=0")


def test_a_link_shows_the_same_again(browser: Any, broker: Ctl) -> None:
    with RawConnection(broker.servers, client_id="linked") as connection:
        broker.join(connection, "linked", session_s=MINUTES)
        with live_page(browser, broker, "#/groups/linked") as page:
            page.click("By partition")
            page.click("Earlier")
            page.tab.get_by_role("button", name="Go live").wait_for()
            address = page.address()
            assert "by=partition" in address
            assert "from=" in address
            shown = page.text(".toolbar >> nth=1")
            page.click("Faults", "link")
            page.choose("Requests of", "OffsetCommit")
            page.choose("Error", "GROUP_AUTHORIZATION_FAILED")
            page.choose("Add a condition", "group")
            page.field("group").fill("a&b")
            page.tab.get_by_text("coordinator-loading").click()
            page.tab.get_by_role("form", name="coordinator-loading").get_by_label("group").fill("linked")
            fault = page.address()
            page.click("Requests", "link")
            second = page.tab.get_by_label("Save request").nth(1)
            second.wait_for()
            page.click("Pause")  # before a row is selected, because another request would move the rows
            second.check()
            requests = page.address()
        with live_page(browser, broker, address.partition("/#")[2].join(["#", ""])) as page:
            assert page.address() == address
            assert page.text(".toolbar >> nth=1") == shown
            page.tab.goto(fault)
            assert page.field("Error").input_value() == "GROUP_AUTHORIZATION_FAILED"
            assert page.field("group").input_value() == "a&b"
            preset = page.tab.get_by_role("form", name="coordinator-loading")
            assert preset.get_by_label("group").input_value() == "linked"
            page.click("Groups", "link")
            page.click("Faults", "link")
            assert page.field("group").input_value() == "a&b"
            page.tab.goto(requests)
            page.tab.get_by_role("button", name="Continue").wait_for()
            assert page.tab.get_by_label("Save request").nth(1).is_checked()
            assert page.tab.locator("tbody input:checked").count() == 1


SPANS = {  # of links, and what the page shows
    "span=-5": "1 min",
    "span=1e300": "24 h",
    "from=0&to=1e300": "1 min",
    "from=10000000000000000000&to=10000000000000002048": "1 min",  # adjacent numbers
    "from=1000&to=31000": "30 s",
}


def test_a_link_with_an_impossible_span_is_shown(browser: Any, broker: Ctl) -> None:
    with RawConnection(broker.servers, client_id="spanning") as connection:
        broker.join(connection, "spanning", session_s=MINUTES)
        for span, text in SPANS.items():
            with live_page(browser, broker, f"#/groups/spanning?{span}") as page:
                page.tab.wait_for_function("document.querySelector('.timeline canvas')?.height > 50")
                assert page.field("Show").evaluate("list => list.selectedOptions[0].text.trim()") == text


def test_a_list_without_requests_can_be_paused(browser: Any, broker: Ctl) -> None:
    with RawConnection(broker.servers, client_id="paused") as connection:
        broker.join(connection, "paused", session_s=MINUTES)
        with live_page(browser, broker, "#/requests?client=nobody") as page:
            page.tab.get_by_text("No request matches yet.").wait_for()
            page.click("Pause")
            page.tab.get_by_role("button", name="Continue").wait_for()


# --- changes that the page makes ---


@contextmanager
def committing(broker: Ctl, group: str) -> Iterator[Callable[[int], str]]:
    """Yield a function that commits an offset with a consumer, and returns the name of the error, or ""."""
    try:
        from confluent_kafka import Consumer, KafkaException, TopicPartition
    except ImportError:
        lacking("confluent-kafka is not installed: it is the client (extra demo)")
    client = Consumer({"bootstrap.servers": broker.servers, "group.id": group, "client.id": group})

    def commit(offset: int) -> str:
        try:
            client.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
        except KafkaException as error:
            return str(error.args[0].name())
        return ""

    yield commit
    client.close()


def test_a_fault_added_by_clicking_reaches_a_client(browser: Any, broker: Ctl) -> None:
    with live_page(browser, broker, "#/faults") as page, committing(broker, "faulty") as commit:
        page.choose("Requests of", "OffsetCommit")
        page.choose("Error", "GROUP_AUTHORIZATION_FAILED")
        page.choose("Add a condition", "group")
        page.field("group").fill("faulty")
        page.field("Name of the rule").fill("denied")
        page.click("Add the rule")
        page.wait_text("denied", "tbody th")
        assert commit(5) == "GROUP_AUTHORIZATION_FAILED"
        page.wait_text("used up", "tbody tr")
        assert page.tab.locator("tbody tr", has_text="denied").locator(".number").nth(1).inner_text() == "1"
        page.click("Remove denied")
        page.wait_text("No rule")
        page.field("Times").fill("often")
        page.click("Add the rule")
        page.wait_text("occurrence.times", ".problems")


def test_a_held_request_is_released_by_clicking(browser: Any, broker: Ctl) -> None:
    rule = '{"api":"OffsetCommit","action":"hold"}'  # as it is in links
    with live_page(browser, broker, f"#/faults?rule={quote(rule)}") as page, committing(broker, "held") as commit:
        page.click("Add the rule")
        page.wait_text("active", "tbody tr")  # otherwise the request may arrive before the rule
        answers = list[str]()
        thread = threading.Thread(target=lambda: answers.append(commit(7)))
        thread.start()
        page.wait_text("holds requests", "tbody tr")
        assert answers == []
        page.click(re.compile("Release all"))
        thread.join(PATIENCE / 1000)
        assert answers == [""]
        assert get(broker, "/v1/groups/held")["offsets"][0]["offset"] == 7
        page.wait_text("used up", "tbody tr")
        page.click(re.compile("^Remove "))
        page.wait_text("No rule")
        with page.tab.expect_response("**/v1/groups/held/lag") as history:
            page.tab.goto(f"{broker.url}/#/groups/held")
        assert history.value.ok  # the curves begin with the lag before the page was opened


def test_the_clock_is_stepped(browser: Any, broker: Ctl) -> None:
    with (
        live_page(browser, broker, "#/groups/slow") as page,
        RawConnection(broker.servers, client_id="slow") as client,
    ):
        page.click("Stop the clock")
        page.wait_text("(stopped)", ".clock")
        broker.join(client, "slow")
        before = get(broker, "/v1/clock")
        page.click("+1 s")
        page.wait_text("1.0 s later: nothing happened", ".notices")
        assert get(broker, "/v1/clock")["time_ms"] == before["time_ms"] + 1_000
        page.click("+10 s")
        page.wait_text("slow is evicted: no heartbeat")
        page.click("Run the clock")
        page.tab.get_by_text("(stopped)").wait_for(state="detached")
        assert get(broker, "/v1/clock")["mode"] == "real"


def test_members_are_evicted_and_topics_created(browser: Any, broker: Ctl) -> None:
    with RawConnection(broker.servers, client_id="unlucky") as connection:
        broker.join(connection, "unlucky", session_s=MINUTES)
        with live_page(browser, broker, "#/groups/unlucky") as page:
            page.click(re.compile("^Evict unlucky"))
            page.wait_text("unlucky is evicted: evicted by an administrator")
            page.click("Topics", "link")
            page.tab.get_by_text("New topic").click()
            page.field("Name").fill("created")
            page.click("Create")
            page.click(re.compile("^created"), "link")
            page.wait_text("created", ".heading")  # until then, the page shows the form of another topic
            page.field("Value").fill("<b>tea</b>")
            page.click("Append")
            page.wait_text("<b>tea</b>", "td .data")
    assert get(broker, "/v1/topics/created/records")["items"][0]["value"] == "<b>tea</b>"


def test_the_list_of_topics_is_filtered(browser: Any, tmp_path: Path) -> None:
    topics = [word for number in range(220) for word in ("--topic", f"t{number}")]
    with running(tmp_path, *topics) as broker, live_page(browser, broker, "#/topics") as page:
        page.wait_text(re.compile("further topics match: filter for them"))
        page.field("Filter topics").fill("t219")
        page.click(re.compile("^t219"), "link")
        page.wait_text("t219", ".heading")
        assert page.tab.locator("nav.list li").count() == 1
        assert page.address().endswith("#/topics/t219?filter=t219")


def test_records_that_cannot_be_read_have_a_reason(browser: Any, broker: Ctl) -> None:
    with live_page(browser, broker, "#/topics/orders?partition=99") as page:
        page.wait_text("topic orders has no partition 99; its partitions are 0 to 2", ".empty")
        page.tab.locator(".toolbar select").select_option("0")
        page.tab.get_by_text("has no partition").wait_for(state="detached")


def test_more_records_of_a_topic(browser: Any, tmp_path: Path) -> None:
    values = [f"v{number}" for number in range(120)]
    with running(tmp_path, "--topic", "long:2") as broker:
        post(broker, "/v1/topics/long/records", {"records": [{"value": value, "partition": 1} for value in values]})
        with live_page(browser, broker, "#/topics/long") as page:
            page.wait_text("v49", "td .data")
            page.click("More records")
            page.wait_text("v99", "td .data")
            page.click("More records")
            page.wait_text("v119", "td .data")
            assert page.tab.locator("td .data", has_text="v").all_inner_texts() == values
            assert page.tab.get_by_role("button", name="More records").count() == 0
            page.field("From offset").fill("100")
            page.field("From offset").press("Enter")
            page.tab.get_by_text("v99", exact=True).wait_for(state="detached")
            assert page.tab.locator("td .data", has_text="v").count() == 20


def test_a_group_beyond_the_limit_may_exist(browser: Any, tmp_path: Path) -> None:
    with running(tmp_path) as broker:
        with PlainClient(broker.servers, client_id="many-groups") as client:
            for number in range(501):
                client.commit(f"g{number:03}", "orders", 0, 1)
        with live_page(browser, broker, "#/groups/g500") as page:
            page.wait_text("The group g500 does not exist, or is among 1 group that the page does not show.")
            page.wait_text("Groups 501", "nav.tabs")
            page.wait_text("Not shown: 1 group. The control API has all of them.")
            page.tab.goto(f"{broker.url}/#/topics/none")
            page.wait_text("The topic none does not exist.")


# --- share groups, and the page of a proxy ---


async def accept(servers: str, records: int) -> None:
    """Accept records as a member of share group ``parcels``."""
    explicit = {"client_id": "packer", "share_acknowledgement_mode": "explicit"}
    async with open_share_consumer(servers, group="parcels", topics=["orders"], **explicit) as consumer:
        while records:
            for record in await consumer.poll():
                consumer.acknowledge(record)
                records -= 1
            await consumer.commit()


def test_deliveries_of_a_share_group_have_a_list_of_their_own(browser: Any, broker: Ctl) -> None:
    kind = IncrementalAlterConfigsRequest.Resource
    reset = kind.Config(name="share.auto.offset.reset", value="earliest")
    with broker.connect() as connection:
        connection.ask(
            IncrementalAlterConfigsRequest(
                resources=[kind(resource_type=32, resource_name="parcels", configs=[reset])]
            ),
            1,
        )
    count = len(get(broker, "/v1/topics/orders/records")["items"]) + 2
    post(
        broker,
        "/v1/topics/orders/records",
        {"records": [{"value": "a", "partition": 2}, {"value": "b", "partition": 2}]},
    )
    trio.run(accept, broker.servers, count)
    with live_page(browser, broker, "#/groups/parcels") as page:
        page.wait_text(re.compile("packer accepts .* of orders"), "[aria-label=Deliveries]")
        page.wait_text("packer joins", "[aria-label=Events]")
        assert "accepts" not in page.text("[aria-label=Events]")
        page.show("events")
        page.wait_text(re.compile("packer acquires .* of orders"), "[aria-label=Events]")


def test_a_proxy_shows_what_it_knows(browser: Any, broker: Ctl, tmp_path: Path) -> None:
    with started(tmp_path / "proxy.json", "proxy", "--to", broker.servers) as proxy:
        with proxy.connect() as connection:
            connection.ask(MetadataRequest(topics=None), 12)  # the response gives the proxy the names of topic ids
        members = ManyMembers(proxy, "proxied", "orders", 2)
        members.settle()
        with live_page(browser, proxy, "#/groups/proxied") as page:
            assert "proxy of a real cluster" in page.text("header")
            page.wait_text("orders", "[aria-label=Members]")
            assert page.tab.get_by_role("button", name=re.compile("Evict")).count() == 0
            assert page.tab.locator("td", has_text=re.compile("^-1$")).count() == 0
            assert "broker -1" not in page.text("main")
        members.close()


# --- requests ---


def test_a_request_is_shown_field_by_field(browser: Any, broker: Ctl, tmp_path: Path) -> None:
    with live_page(browser, broker, "#/requests?api=Heartbeat&client=teller") as page:
        page.wait_text("No request matches yet")
        with RawConnection(broker.servers, client_id="teller") as client:
            client.ask(HeartbeatRequest(group_id="told", generation_id=3, member_id="m"), 4)
        page.click(re.compile("^Heartbeat"))
        page.wait_text("UNKNOWN_MEMBER_ID", ".details")
        page.wait_text('"told"', ".json")
        page.click("Bytes")
        page.click(re.compile("^generation_id 3"))
        assert page.tab.locator(".hex .chosen").all_inner_texts() == ["00", "00", "00", "03"]
        page.tab.locator(".hex .bytes span").nth(1).click()
        assert page.text(".fields [aria-pressed=true] .key") == "request_api_key"
        page.tab.get_by_role("checkbox").first.check()
        with page.tab.expect_download() as download:
            page.click("Save 1 as frame log", "link")
        path = tmp_path / "requests.frames"
        download.value.save_as(path)
        decoded = CliRunner().invoke(kwire, ["decode", str(path)])
        assert decoded.exit_code == 0, decoded.output
        assert "told" in decoded.output


@pytest.mark.parametrize("key", ["Enter", "Escape"])
def test_closed_details_return_the_focus_to_the_list(browser: Any, broker: Ctl, key: str) -> None:
    with RawConnection(broker.servers, client_id=f"closing-{key}") as client:
        client.ask(HeartbeatRequest(group_id="closed", generation_id=3, member_id="m"), 4)
        with live_page(browser, broker, f"#/requests?client=closing-{key}") as page:
            page.click(re.compile("^Heartbeat"))
            page.wait_text("UNKNOWN_MEMBER_ID", ".details")
            page.tab.get_by_role("button", name="Close", exact=True).focus()
            page.tab.keyboard.press(key)
            page.tab.locator(".details").wait_for(state="detached")
            assert page.tab.evaluate("document.activeElement.innerText").startswith("Heartbeat")


# --- the connection to the broker ---


def test_the_page_continues_after_the_broker_restarts(browser: Any, tmp_path: Path) -> None:
    ports = ("--port", str(free_port()), "--http", str(free_port()))
    for name in ("first", "second"):
        tmp_path.joinpath(name).mkdir()
    with running(tmp_path / "first", *ports) as broker:
        context = browser.new_context()
        page = LivePage(context, broker.url).open("#/groups/before")
        with RawConnection(broker.servers, client_id="before") as connection:
            broker.join(connection, "before", session_s=MINUTES)
            page.wait_text("before", ".lane-label")
    page.wait_text("connection lost", ".connection")
    with running(tmp_path / "second", *ports) as broker:
        page.live()
        page.wait_text("There is no consumer group yet")
        with RawConnection(broker.servers, client_id="after") as connection:
            broker.join(connection, "before", session_s=MINUTES)
            page.wait_text("after", ".lane-label")
            assert page.tab.locator(".lane-label").count() == 1
    assert page.close() == []
    context.close()


def test_a_token_is_asked_for(browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOCKBROKER_HTTP_TOKEN", "a-secret-of-the-test")
    with running(tmp_path) as broker:
        context = browser.new_context()
        page = LivePage(context, broker.url)
        page.tab.goto(broker.url)
        for token in ("wrong", "a-secret-of-the-test"):
            page.field("Token").fill(token)
            page.click("Log in")
            if token == "wrong":
                page.wait_text("the token is", "[role=alert]")
        page.live()
        assert page.close() == []
        context.close()


def test_a_token_is_asked_for_after_the_broker_restarts(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOCKBROKER_HTTP_TOKEN", "a-secret-of-the-test")
    ports = ("--port", str(free_port()), "--http", str(free_port()))
    context = browser.new_context()
    for name in ("first", "second"):
        tmp_path.joinpath(name).mkdir()
        with running(tmp_path / name, *ports) as broker:
            if name == "first":
                page = LivePage(context, broker.url)
                page.tab.goto(f"{broker.url}/#/topics/orders")
            page.field("Token").fill("a-secret-of-the-test")  # the sessions of the first broker have ended with it
            page.click("Log in")
            page.live()
            assert page.address().endswith("/#/topics/orders")
        page.wait_text("connection lost", ".connection")
    assert page.close() == []
    context.close()


def rebalances(broker: Ctl, group: str, minutes: int) -> None:
    """Let a member join, commit and leave ten times, then advance the stopped clock by 20 s; repeat this for
    ``minutes``."""
    with PlainClient(broker.servers, client_id="coming-and-going") as client:
        for _ in range(3 * minutes):
            for number in range(10):
                client.member_id = ""
                client.join(group)
                client.lead(group, "orders", [0, 1, 2])
                client.commit(group, "orders", number % 3, number)
                client.ask(LeaveGroupRequest(group_id=group, member_id=client.member_id), 0)
            post(broker, "/v1/clock", {"advance_ms": 20_000})


@pytest.mark.parametrize("minutes", usual_and_long([30], [240]))
def test_events_do_not_grow_the_tab(browser: Any, tmp_path: Path, minutes: int) -> None:
    """The first 15 minutes fill the tab up to its limits; each minute after that has about 300 events."""
    with running(tmp_path) as broker, live_page(browser, broker, "#/groups/busy") as page:
        post(broker, "/v1/clock", {"mode": "manual"})
        sizes = []
        for length in (15, minutes):
            rebalances(broker, "busy", length)
            page.wait_text(f"generation {get(broker, '/v1/groups/busy')['generation']}", ".heading")
            page.wait_text("the group is empty", "[aria-label=Events] tbody tr >> nth=0")
            sizes.append(page.heap())
        most = 1_500_000 + 4_000 * minutes  # the same after 480 minutes as after 240; an event has some hundred bytes
        assert sizes[1] - sizes[0] < most, sizes


# --- how it looks ---


@pytest.fixture(scope="module")
def groups(broker: Ctl) -> Iterator[Ctl]:
    """Yield the broker with a group of three members and a group of fifty members."""
    members = [ManyMembers(broker, "three", "orders", 3), ManyMembers(broker, "fifty", "many", 50)]
    for each in members:
        each.settle()
    yield broker
    for each in members:
        each.close()


@pytest.mark.parametrize("group", ["three", "fifty"])
def test_nothing_overlaps_or_overflows(browser: Any, groups: Ctl, group: str) -> None:
    lanes = {f"groups/{group}": "member", f"groups/{group}?by=partition": "partition"}
    views = VIEWS[1:] if group == "three" else ()
    problems = {}
    with live_page(browser, groups) as page:
        page.watch_lanes()
        page.click("Stop the clock")  # shows the controls of the stopped clock
        page.wait_text("(stopped)", ".clock")
        for width in (390, 1300, 2560):
            page.tab.set_viewport_size({"width": width, "height": 900})
            for place in (*lanes, *views):
                if place in lanes:
                    page.tab.goto(f"{groups.url}/#/{place}")
                    page.wait_lanes(group, lanes[place])
                else:
                    page.show(place)
                problems[width, place] = page.layout_problems()
        assert page.misplaced_lanes() == []
        page.click("Run the clock")
        page.tab.get_by_text("(stopped)").wait_for(state="detached")
    assert {where: found for where, found in problems.items() if found} == {}


@pytest.mark.parametrize("view", usual_and_long(QUICK_VIEWS, [view for view in VIEWS if view not in QUICK_VIEWS]))
@pytest.mark.parametrize("scheme", usual_and_long(["light"], ["dark"]))
def test_axe_finds_nothing(browser: Any, groups: Ctl, axe: str, scheme: str, view: str) -> None:
    with live_page(browser, groups, color_scheme=scheme, reduced_motion="reduce") as page:
        page.show(view)
        page.tab.evaluate(axe)
        assert page.tab.evaluate(AXE) == []


# Returns the parts whose chosen one looks like the others, and whether the canvas has the fill of the first member.
FORCED = """() => {
  const style = (selector, property) => getComputedStyle(document.querySelector(selector))[property];
  const same = [[".tabs a", "borderBottomColor"], [".list a", "borderInlineStart"]]
    .filter(([part, how]) => style(`${part}[aria-current]`, how) === style(`${part}:not([aria-current])`, how));
  if (style("[aria-pressed=true]", "backgroundColor") === style("[aria-pressed=false]", "backgroundColor")) same.push("button");
  const canvas = document.querySelector(".timeline canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const colours = new Set();
  for (let at = 0; at < data.length; at += 4) colours.add(data.slice(at, at + 4).join());
  return [same, colours.has("194,215,244,255")];
}"""


def test_forced_colours_show_members_and_what_is_chosen(browser: Any, groups: Ctl) -> None:
    with PlainClient(groups.servers, client_id="forced") as client:
        client.join("forced")
        client.lead("forced", "orders", [0])
        with live_page(browser, groups, "#/groups/forced", forced_colors="active") as page:
            page.wait_lanes("forced")
            assert page.tab.evaluate(FORCED) == [[], True]


def test_print_has_all_rows_and_no_controls(browser: Any, groups: Ctl) -> None:
    with live_page(browser, groups, "#/groups/fifty") as page:
        page.wait_lanes("fifty")
        page.tab.emulate_media(media="print")
        page.tab.set_viewport_size({"width": 700, "height": 900})  # about the width of a sheet of paper
        boxes = "all => all.filter(each => each.scrollHeight > each.clientHeight + 1).length"
        assert page.tab.locator(".scroll").evaluate_all(boxes) == 0
        assert page.tab.locator("main button:visible, nav:visible").count() == 0
        assert page.text("h2").startswith("fifty")


def test_hostile_names_stay_text(browser: Any, broker: Ctl) -> None:
    with RawConnection(broker.servers, client_id=HOSTILE) as connection:
        broker.join(connection, HOSTILE, session_s=MINUTES)
        post(broker, "/v1/topics/orders/records", {"records": [{"key": HOSTILE, "value": HOSTILE}]})
        with live_page(browser, broker) as page:
            for view in VIEWS:
                page.show(view)
                assert page.tab.locator("main img, main script").count() == 0
                assert "\u202e" not in page.text("main")
            page.click("Groups", "link")
            page.click(re.compile("^<script>"), "link")
            page.wait_text("<script>alert(1)</script>", "h2")
            page.wait_text("⟨202e⟩", ".lane-label")
            names = [each["data-lane"] for each in exported(page)]
            assert any(name.startswith("<script>") for name in names)


def test_hostile_names_in_sentences_stay_visible(browser: Any, broker: Ctl) -> None:
    with RawConnection(broker.servers, client_id=HOSTILE) as connection:
        group = f"{HOSTILE} in sentences"
        broker.join(connection, group, session_s=MINUTES, assignor=HOSTILE)
        rule = {"name": "hostile", "match": {"api": "Heartbeat", "group": group}, "action": {"delay_ms": 1}}
        post(broker, "/v1/faults", rule)
        with live_page(browser, broker, f"#/groups/{quote(group)}") as page:
            page.wait_text("assignor <script>", ".facts")
            shown = (
                page.text("main") + page.tab.title() + page.tab.locator(".timeline canvas").get_attribute("aria-label")
            )
            page.show("faults")
            page.wait_text("group <script>", "tbody tr")
            shown += page.text("main")
            page.click("Remove hostile")
            page.show("brokers")
            page.tab.locator("tr", has_text="<script>").get_by_role("button", name=re.compile("Close")).click()
            page.wait_text("The connection of <script>", ".notices")
            shown += page.text("main")
    assert "\u202e" not in shown
    assert shown.count("⟨202e⟩") > 6


def test_notices_exist_for_screen_readers_before_their_text(browser: Any, broker: Ctl) -> None:
    with live_page(browser, broker) as page:
        notices = page.tab.locator(".notices")
        assert notices.aria_snapshot().splitlines() == ["- status", "- alert"]
        assert [notices.locator("p").nth(at).bounding_box()["height"] for at in range(2)] == [0, 0]


def test_everything_works_with_the_keyboard(browser: Any, groups: Ctl) -> None:
    with live_page(browser, groups, "#/groups/three") as page:
        page.wait_lanes("three")
        names = set()
        for _ in range(40):
            page.tab.keyboard.press("Tab")
            names.add(page.tab.evaluate("(document.activeElement.ariaLabel || document.activeElement.innerText)"))
        assert {"Stop the clock", "By partition", "Live", "Earlier", "Zoom in", "Save as SVG", "Members"} <= names
        page.tab.get_by_role("button", name="By partition").focus()
        page.tab.keyboard.press("Enter")
        page.wait_text("orders-0", ".lane-label")
