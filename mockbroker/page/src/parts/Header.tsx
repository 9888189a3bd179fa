/** What this server is, whether the page is connected to it, and its clock. */

import { connection, state } from "../data/live.ts";
import { ClockControl } from "./ClockControl.tsx";
import { copy } from "./widgets.tsx";

const TEXTS = { connecting: "connecting", live: "live", lost: "connection lost, trying again" } as const;

export function Header() {
  const cluster = state.value?.cluster;
  const servers = cluster?.bootstrap_servers ?? "";
  return (
    <header class="top">
      <h1>
        mockbroker <small>{cluster?.kind === "proxy" ? "proxy of a real cluster" : `emulates Kafka ${cluster?.release ?? ""}`}</small>
      </h1>
      <p class="servers">
        <code>bootstrap.servers={servers}</code>{" "}
        <button type="button" onClick={() => copy(servers, "Addresses")} aria-label="Copy the addresses">
          Copy
        </button>
      </p>
      <ClockControl />
      <p class={`connection ${connection.value}`} role="status">
        {TEXTS[connection.value]}
      </p>
    </header>
  );
}
