/** A request and its response: the decoded bodies, and their bytes. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Problem, read } from "../data/api.ts";
import { errorText } from "../data/catalogue.ts";
import { place, setOptions } from "../data/place.ts";
import type { Frame, RequestDetail } from "../data/types.ts";
import { clockText, duration } from "../lanes/time.ts";
import { ExplainPane } from "../parts/ExplainPane.tsx";
import { JsonTree } from "../parts/JsonTree.tsx";
import { Choice, Empty, Name } from "../parts/widgets.tsx";

const SIDES = [
  ["request", "Request"],
  ["response", "Response"],
] as const;
const FORMS = [
  ["body", "Body"],
  ["bytes", "Bytes"],
] as const;

export function RequestDetails({ id }: { id: string }) {
  const loaded = useSignal<RequestDetail | null>(null);
  const problem = useSignal("");
  useEffect(() => {
    let current = true;
    loaded.value = null;
    problem.value = "";
    const load = () =>
      read<RequestDetail>(`/v1/requests/${id}`).then(
        (detail) => current && (loaded.value = detail),
        (error: unknown) => current && (problem.value = error instanceof Problem ? error.message : String(error)),
      );
    void load();
    return () => {
      current = false;
    };
  }, [id]);
  const detail = loaded.value;
  return (
    <section class="panel details" aria-label={`Request ${id}`} onKeyDown={(event) => event.key === "Escape" && close()}>
      <div class="toolbar">
        <h3>
          {detail ? detail.api : "Request"} <small>{detail ? `v${detail.version}, number ${detail.id}` : id}</small>
        </h3>
        <button type="button" onClick={close}>
          Close
        </button>
      </div>
      {problem.value && <Empty>{problem.value}</Empty>}
      {detail && <Content detail={detail} />}
    </section>
  );
}

/** Close the details; the keyboard is then at the request in the list, or at the first control of the view. */
function close(): void {
  const view = document.querySelector(".with-details");
  (view?.querySelector<HTMLElement>("tr[aria-selected=true] button") ?? view?.querySelector("select"))?.focus();
  setOptions({ id: "", side: "", form: "", at: "" });
}

function Content({ detail }: { detail: RequestDetail }) {
  const side = place.value.options["side"] === "response" ? "response" : "request";
  const form = place.value.options["form"] === "bytes" ? "bytes" : "body";
  const frame = side === "request" ? detail.request_frame : detail.response_frame;
  const body = side === "request" ? detail.request : detail.response;
  return (
    <>
      <p class="facts">
        <Name of={detail.client_id} /> at {detail.host} → broker {detail.broker}, {clockText(Date.parse(detail.time))} UTC
        {detail.latency_ms === null || detail.latency_ms === undefined ? ", waits for its response" : `, took ${duration(detail.latency_ms)}`}
        {detail.error_code ? `, ${errorText(detail.error_code)}` : ""}
        {detail.fault ? `, fault ${detail.fault}` : ""}
      </p>
      <div class="toolbar">
        <Choice label="Message" value={side} options={SIDES} onChange={(value) => setOptions({ side: value === "request" ? "" : value, at: "" })} />
        <Choice label="Form" value={form} options={FORMS} onChange={(value) => setOptions({ form: value === "body" ? "" : value, at: "" })} />
      </div>
      {form === "body" ? <Body detail={detail} side={side} body={body} /> : <Bytes frame={frame} side={side} />}
    </>
  );
}

function Body({ detail, side, body }: { detail: RequestDetail; side: string; body: unknown }) {
  if (detail.bodies_left_out) return <Empty>The bodies are too large to be decoded here; "Bytes" has the first fields.</Empty>;
  return body ? <JsonTree value={body} /> : <Empty>There is no {side} (yet).</Empty>;
}

function Bytes({ frame, side }: { frame: Frame | null | undefined; side: string }) {
  return frame ? <ExplainPane key={side} frame={frame} /> : <Empty>There are no bytes of a {side}.</Empty>;
}
