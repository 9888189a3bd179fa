/** The records of a topic: read a part of them, and append one. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ask, Problem, read } from "../data/api.ts";
import { encoded, visible } from "../data/names.ts";
import { place, setOptions } from "../data/place.ts";
import type { Data, TopicRecord } from "../data/types.ts";
import { clockText } from "../lanes/time.ts";
import { act } from "../parts/notices.tsx";
import { Empty, Table } from "../parts/widgets.tsx";

const PAGE = 50;
const MOST = 1_000; // records in the table
const LONGEST = 500; // characters of a value in the table

interface RecordPage {
  items: TopicRecord[];
  next: string | null; // cursor of the next page
}

export function Records({ topic, partitions }: { topic: string; partitions: number }) {
  const { partition = "", offset = "", committed = "" } = place.value.options;
  const found = useSignal<RecordPage>({ items: [], next: null });
  const problem = useSignal("");
  const reads = useSignal(0);
  const query = `${partition && `&partition=${encoded(partition)}`}${offset && `&offset=${encoded(offset)}`}&committed=${committed === "yes"}`;
  const path = `/v1/topics/${encoded(topic)}/records?limit=${PAGE}${query}`;
  useEffect(() => {
    let current = true;
    read<RecordPage>(path).then(
      (page) => current && ((found.value = page), (problem.value = "")),
      (error: unknown) => current && (problem.value = reason(error)),
    );
    return () => {
      current = false;
    };
  }, [path, reads.value]);
  const { items, next } = found.value;
  const readNext = (cursor: string) =>
    read<RecordPage>(`${path}&after=${encoded(cursor)}`).then(
      (page) => found.value.next === cursor && (found.value = { items: [...found.value.items, ...page.items], next: page.next }),
      (error: unknown) => found.value.next === cursor && (problem.value = reason(error)),
    );
  return (
    <section>
      <h3>Records</h3>
      <div class="toolbar">
        <label>
          Partition{" "}
          <select value={partition} onChange={(event) => setOptions({ partition: event.currentTarget.value })}>
            <option value="">all</option>
            {Array.from({ length: Math.min(partitions, 1_000) }, (_, index) => (
              <option key={index} value={index}>
                {index}
              </option>
            ))}
          </select>
        </label>
        <label>
          From offset <input type="number" min="0" value={offset} onChange={(event) => setOptions({ offset: event.currentTarget.value })} />
        </label>
        <label>
          <input type="checkbox" checked={committed === "yes"} onChange={(event) => setOptions({ committed: event.currentTarget.checked ? "yes" : "" })} /> Only committed
        </label>
        <button type="button" onClick={() => (reads.value += 1)}>
          Read again
        </button>
      </div>
      {problem.value ? <Empty>{problem.value}</Empty> : <RecordTable records={items} />}
      {next !== null && !problem.value && items.length < MOST && (
        <div class="toolbar">
          <button type="button" onClick={() => void readNext(next)}>
            More records
          </button>
        </div>
      )}
      <NewRecord topic={topic} onDone={() => (reads.value += 1)} />
    </section>
  );
}

function reason(error: unknown): string {
  return error instanceof Problem ? error.message : String(error);
}

function RecordTable({ records }: { records: TopicRecord[] }) {
  if (!records.length) return <Empty>No record here.</Empty>;
  return (
    <Table label="Records" tall columns={["Partition", "#Offset", "Time (UTC)", "Key", "Value", "Headers"]}>
      {records.map((record) => (
        <tr key={`${record.partition}:${record.offset}`}>
          <td>{record.partition}</td>
          <td class="number">{record.offset}</td>
          <td>{record.timestamp_ms < 0 ? "–" : clockText(record.timestamp_ms)}</td>
          <td>
            <DataText of={record.key} />
          </td>
          <td>
            <DataText of={record.value} />
          </td>
          <td>
            {record.headers.map((header, at) => (
              <div key={at}>
                <bdi>{visible(header.key)}</bdi>: <DataText of={header.value} />
              </div>
            ))}
          </td>
        </tr>
      ))}
    </Table>
  );
}

function DataText({ of }: { of: Data }) {
  if (of === null) return <span class="dim">null</span>;
  const text = typeof of === "string" ? visible(of) : of.base64;
  return (
    <>
      <bdi class="data">{text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text}</bdi>
      {typeof of !== "string" && <small> base64</small>}
    </>
  );
}

function NewRecord({ topic, onDone }: { topic: string; onDone: () => void }) {
  return (
    <form
      class="toolbar"
      aria-label="Append a record"
      onSubmit={(event) => {
        event.preventDefault();
        const data = new FormData(event.currentTarget);
        const [key, partition] = [String(data.get("key")), String(data.get("partition"))];
        const record = { value: String(data.get("value")), ...(key && { key }), ...(partition && { partition: Number(partition) }) };
        void act(ask("POST", `/v1/topics/${encoded(topic)}/records`, { records: [record] }), "The record is appended").then(onDone);
      }}
    >
      <label>
        Key <input name="key" />
      </label>
      <label>
        Value <input name="value" required />
      </label>
      <label>
        Partition <input name="partition" type="number" min="0" placeholder="by key" />
      </label>
      <button>Append</button>
    </form>
  );
}
