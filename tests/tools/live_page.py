"""The live page of a broker process in a browser, and groups for it."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import httpx
from plain_client import RawConnection
from tools.ctl_process import Ctl

from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest as Heartbeat
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

PATIENCE = 30_000  # milliseconds after which a test that waits fails
VIEWS = ("groups", "requests", "topics", "brokers", "transactions", "faults", "events")
EXPECTED = ("Failed to load resource", "net::ERR", "[DOM] Password forms")  # without a server, or with a wrong token

CLIENT = httpx.Client(timeout=2 * PATIENCE / 1000, trust_env=False, verify=False)

# Returns visible controls, names and headings that overlap without containing each other, or are wider than the page.
LAYOUT = """() => {
  const shown = [...document.querySelectorAll("h1,h2,h3,button,select,input,label,th,td,.badge,.lane-label,time,code")]
    .map(element => [element, element.getBoundingClientRect()])
    .filter(([element, box]) => element.checkVisibility() && box.width && box.height && !inScroll(element));
  function inScroll(element) {
    const around = element.closest(".scroll, .list ul, .fields, .hex, .json");
    return around && (around.scrollHeight > around.clientHeight || around.scrollWidth > around.clientWidth);
  }
  const found = [];
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) found.push(`the page is ${document.documentElement.scrollWidth} wide`);
  shown.forEach(([one, a], at) => {
    if (a.right > width + 1) found.push(`${one.outerHTML.slice(0, 80)} ends at ${a.right}`);
    for (const [other, b] of shown.slice(at + 1)) {
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left), down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (across > 1 && down > 1 && !one.contains(other) && !other.contains(one))
        found.push(`${one.outerHTML.slice(0, 80)} overlaps ${other.outerHTML.slice(0, 80)}`);
    }
  });
  return found.slice(0, 5);
}"""

# Returns whether the lanes are drawn as in the address: for this group, at this width, with a name for each lane.
DRAWN = """([group, by]) => {
  const timeline = document.querySelector(".timeline"), canvas = timeline?.querySelector("canvas");
  if (!canvas || !canvas.ariaLabel.startsWith(`Timeline of group ${group} by ${by};`)) return false;
  const last = [...timeline.querySelectorAll(".lane-label")].at(-1)?.getBoundingClientRect();
  const ratio = Math.min(devicePixelRatio, 2);
  return last !== undefined && canvas.width === Math.round(timeline.clientWidth * ratio)
    && Math.abs(canvas.getBoundingClientRect().bottom - last.bottom) < 10;
}"""

# Collects the names of lanes that are added without a position: they would all be drawn at the top.
MISPLACED = """() => {
  window.misplaced = [];
  const added = records => records.flatMap(record => [...record.addedNodes]).filter(node => node.nodeType === 1)
    .flatMap(node => [node, ...node.querySelectorAll(".lane-label")]).filter(node => node.matches(".lane-label"));
  new MutationObserver(records => misplaced.push(...added(records).filter(each => !each.style.top).map(each => each.innerText)))
    .observe(document, { childList: true, subtree: true });
}"""


class LivePage:
    """The page in a browser tab. ``complaints``: texts of console messages, exceptions and dialogs."""

    def __init__(self, context: Any, url: str) -> None:
        self.url = url
        self.tab = context.new_page()
        self.tab.set_default_timeout(PATIENCE)
        self.complaints: list[str] = []
        self.tab.on("console", lambda message: self.complaints.append(message.text))
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.tab.on("dialog", self._dismiss)

    def _dismiss(self, dialog: Any) -> None:
        self.complaints.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def open(self, place: str = "") -> LivePage:
        """Go to a fragment, such as ``#/groups/g``, and wait until the page is live."""
        self.tab.goto(f"{self.url}/{place}")
        self.live()
        return self

    def live(self) -> None:
        self.tab.locator(".connection.live").wait_for()

    def text(self, selector: str) -> str:
        return str(self.tab.locator(selector).inner_text())

    def wait_text(self, text: str | re.Pattern[str], selector: str = "main") -> None:
        """Wait until an element contains a text."""
        self.tab.locator(selector).filter(has_text=text).first.wait_for()

    def address(self) -> str:
        """Return the address from the page itself, because the browser reports a change only later."""
        return str(self.tab.evaluate("location.href"))

    def show(self, view: str) -> None:
        """Go to a view, such as ``faults``, and wait until the page shows it."""
        self.tab.goto(f"{self.url}/#/{view}")
        self.tab.locator(f'.tabs a[aria-current="page"][href="#/{view}"]').wait_for()

    def wait_lanes(self, group: str, by: str = "member") -> None:
        """Wait until the lanes of a group are drawn at the present width."""
        self.tab.wait_for_function(DRAWN, arg=[group, by])

    def watch_lanes(self) -> None:
        """Start to record the names of lanes that are added without a position."""
        self.tab.evaluate(MISPLACED)

    def misplaced_lanes(self) -> list[str]:
        """Return the names of lanes that were added without a position."""
        return list(self.tab.evaluate("window.misplaced"))

    def click(self, name: str | re.Pattern[str], role: str = "button") -> None:
        self.tab.get_by_role(role, name=name).first.click()

    def field(self, label: str) -> Any:
        """Return the control whose label begins with a text."""
        return self.tab.get_by_label(re.compile(rf"^\s*{label}")).first

    def choose(self, label: str, option: str) -> None:
        self.field(label).select_option(option)

    def heap(self) -> int:
        """Return the number of bytes that the tab's objects use after a garbage collection."""
        session = self.tab.context.new_cdp_session(self.tab)
        session.send("HeapProfiler.collectGarbage")
        used = session.send("Runtime.getHeapUsage")["usedSize"]
        session.detach()
        return int(used)

    def layout_problems(self) -> list[str]:
        return list(self.tab.evaluate(LAYOUT))

    def close(self) -> list[str]:
        """Close the tab; return the complaints."""
        self.tab.close()
        return [text for text in self.complaints if not text.startswith(EXPECTED)]


@contextmanager
def live_page(browser: Any, broker: Ctl, place: str = "", **options: Any) -> Iterator[LivePage]:
    """Yield the page of a broker in a new browser context; fail on any complaint. ``options``: of the context."""
    context = browser.new_context(**{"viewport": {"width": 1300, "height": 900}, **options})
    page = LivePage(context, broker.url)
    try:
        yield page.open(place)
        assert page.close() == []
    finally:
        context.close()


def get(broker: Ctl, path: str, **query: Any) -> Any:
    """Return the JSON of a response of the control API."""
    response = CLIENT.get(f"{broker.url}{path}", params=query)
    response.raise_for_status()
    return response.json()


def post(broker: Ctl, path: str, body: Any) -> Any:
    response = CLIENT.post(f"{broker.url}{path}", json=body)
    response.raise_for_status()
    return response.json()


def wait_group(broker: Ctl, group: str, members: int) -> None:
    get(broker, f"/v1/groups/{group}/wait", state="Stable", members=members, timeout_ms=PATIENCE)


class ManyMembers:
    """A group of the consumer protocol whose members share one connection."""

    def __init__(self, broker: Ctl, group: str, topic: str, count: int) -> None:
        self._line = RawConnection(broker.servers.split(",")[0], client_id=f"{group}-client")
        self._group = group
        self._epochs: dict[str, int] = {}
        self._owned: dict[str, list[Heartbeat.TopicPartition]] = {}
        for number in range(count):
            self._join(f"{group}-{number}-{UUID(int=number)}", topic)

    def _join(self, member: str, topic: str) -> None:
        request = Heartbeat(
            group_id=self._group,
            member_id=member,
            rebalance_timeout_ms=300_000,
            subscribed_topic_names=[topic],
            topic_partitions=[],
        )
        self._apply(member, self._line.ask(request, 1))

    def settle(self) -> None:
        """Let each member own its target assignment."""
        for _ in range(3):
            for member, epoch in list(self._epochs.items()):
                owned = self._owned.get(member, [])
                request = Heartbeat(group_id=self._group, member_id=member, member_epoch=epoch, topic_partitions=owned)
                self._apply(member, self._line.ask(request, 1))

    def _apply(self, member: str, response: ConsumerGroupHeartbeatResponse) -> None:
        assert response.error_code == 0, response
        self._epochs[member] = response.member_epoch
        if response.assignment is not None:
            self._owned[member] = [
                Heartbeat.TopicPartition(topic_id=each.topic_id, partitions=each.partitions)
                for each in response.assignment.topic_partitions
            ]

    def close(self) -> None:
        self._line.sock.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
