/** Requests as they arrive, with filters, and one of them in detail. */

import { useEffect } from "preact/hooks";
import { connection, state } from "../data/live.ts";
import { place, setOptions } from "../data/place.ts";
import { followRequests, requestChanges, requests, skipped } from "../data/requests.ts";
import { watched } from "../data/stream.ts";
import type { RequestLine } from "../data/types.ts";
import { clockText, duration } from "../lanes/time.ts";
import { ApiOptions } from "../parts/ApiOptions.tsx";
import { memo } from "../parts/memo.tsx";
import { number } from "../data/numbers.ts";
import { Empty, Name, Table } from "../parts/widgets.tsx";
import { errorText } from "../data/catalogue.ts";
import { RequestDetails } from "./RequestDetails.tsx";

const SHOWN = 150;
const COLUMNS = ["Save", "Time (UTC)", "Request", "Client", "About", "Result", "#Took", "#Size"];

export function Requests() {
  const { api = "", client = "", about = "", id = "", until = "", ticked = "" } = place.value.options;
  const last = Number(until); // the newest request that is shown; 0 to follow the requests
  useEffect(() => {
    if (!watched.value || connection.value !== "live") return undefined;
    const newest = state.peek()?.requests.last ?? 0;
    return followRequests({ api, client_id: client, group: about }, last ? Math.min(last, newest) : newest);
  }, [api, client, about, watched.value, connection.value]);
  void requestChanges.value;
  const lines = requests.latest(SHOWN, (line) => !last || line.id <= last);
  const newest = lines[0]?.id ?? state.peek()?.requests.last ?? 0; // also if no request matches
  const chosen = new Set(ticked.split(",").map(Number).filter(Boolean));
  return (
    <div class={id ? "with-details" : undefined}>
      <section>
        <h2>Requests</h2>
        <Filters />
        <div class="toolbar">
          <button type="button" aria-pressed={last > 0} onClick={() => setOptions({ until: last ? "" : String(newest || "") })}>
            {last ? "Continue" : "Pause"}
          </button>
          <SaveFrames chosen={chosen} />
          {skipped.value > 0 && <span class="dim">{number(skipped.value)} requests were too many to list; a filter helps</span>}
        </div>
        {lines.length ? (
          <Table label="Requests" columns={COLUMNS} tall>
            {lines.map((line) => (
              <Row key={line.id} line={line} current={String(line.id) === id} chosen={chosen.has(line.id)} />
            ))}
          </Table>
        ) : (
          <Empty>No request matches yet.</Empty>
        )}
      </section>
      {id && <RequestDetails id={id} />}
    </div>
  );
}

function Filters() {
  const { api = "", client = "", about = "" } = place.value.options;
  const clients = [...new Set(Object.values(state.value?.connections ?? {}).map((each) => each.client_id))];
  return (
    <div class="toolbar">
      <label>
        API{" "}
        <select value={api} onChange={(event) => setOptions({ api: event.currentTarget.value })}>
          <option value="">all</option>
          <ApiOptions />
        </select>
      </label>
      <label>
        Client <input list="clients" value={client} placeholder="all" onChange={(event) => setOptions({ client: event.currentTarget.value })} />
      </label>
      <label>
        Group <input list="groups" value={about} placeholder="all" onChange={(event) => setOptions({ about: event.currentTarget.value })} />
      </label>
      <datalist id="clients">{clients.slice(0, 200).map((each) => <option key={each} value={each} />)}</datalist>
      <datalist id="groups">{Object.keys(state.value?.groups ?? {}).slice(0, 200).map((each) => <option key={each} value={each} />)}</datalist>
    </div>
  );
}

function SaveFrames({ chosen }: { chosen: ReadonlySet<number> }) {
  if (!chosen.size) return <span class="dim">Tick requests to save their bytes as a frame log</span>;
  return (
    <a class="button" href={`/v1/requests/frames?ids=${[...chosen].sort((some, other) => some - other).join(",")}`} download="requests.frames">
      Save {chosen.size} as frame log
    </a>
  );
}

/** Tick a request, or remove its tick. */
function toggle(id: number): void {
  const ticked = (place.peek().options["ticked"] ?? "").split(",").filter(Boolean);
  const others = ticked.filter((each) => each !== String(id));
  setOptions({ ticked: (others.length === ticked.length ? [...ticked, id] : others).join(",") });
}

interface Props {
  line: RequestLine;
  current: boolean;
  chosen: boolean;
}

const Row = memo(({ line, current, chosen }: Props) => (
  <tr class={line.error_code ? "failed" : undefined} aria-selected={current}>
    <td>
      <input type="checkbox" checked={chosen} aria-label={`Save request ${line.id}`} onChange={() => toggle(line.id)} />
    </td>
    <td>
      <time>{clockText(Date.parse(line.time))}</time>
    </td>
    <th scope="row">
      <button type="button" class="link" aria-expanded={current} onClick={() => setOptions({ id: current ? "" : String(line.id), at: "" })}>
        {line.api} <small>v{line.version}</small>
      </button>
    </th>
    <td>
      <Name of={line.client_id} />
    </td>
    <td>
      {[...(line.groups ?? []), ...(line.topics ?? [])].slice(0, 3).map((each, at) => (
        <span key={at}>
          {at > 0 && ", "}
          <Name of={each} />
        </span>
      ))}
    </td>
    <td>{resultOf(line)}</td>
    <td class="number">{line.latency_ms === null || line.latency_ms === undefined ? "" : duration(line.latency_ms)}</td>
    <td class="number">{line.size === undefined ? "" : number(line.size)}</td>
  </tr>
));

function resultOf(line: RequestLine): string {
  const fault = line.fault ? ` (fault ${line.fault})` : "";
  if (line.latency_ms === null || line.latency_ms === undefined) return `waits${fault}`;
  return `${line.error_code ? errorText(line.error_code) : "ok"}${fault}`;
}
