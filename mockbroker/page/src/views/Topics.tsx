/** The topics, and one of them in detail. */

import { ask } from "../data/api.ts";
import { can, state } from "../data/live.ts";
import { encoded } from "../data/names.ts";
import { go, place, setOptions } from "../data/place.ts";
import type { Partition, Topic } from "../data/types.ts";
import { memo } from "../parts/memo.tsx";
import { act } from "../parts/notices.tsx";
import { counted, number } from "../data/numbers.ts";
import { Empty, Link, Missing, Name, Table } from "../parts/widgets.tsx";
import { Records } from "./Records.tsx";

const LISTED = 200;

export function Topics() {
  const { filter = "" } = place.value.options;
  const topics = Object.entries(state.value?.topics ?? {});
  const chosen = place.value.name || (topics.find(([, topic]) => !topic.internal)?.[0] ?? "");
  const topic = state.value?.topics[chosen];
  const found = topics.filter(([name]) => name.includes(filter));
  return (
    <div class="split">
      <nav aria-label="Topics" class="list">
        {topics.length > 8 && <input type="search" aria-label="Filter topics" placeholder="Filter topics" value={filter} onInput={(event) => setOptions({ filter: event.currentTarget.value })} />}
        <ul>
          {found.slice(0, LISTED).map(([name, each]) => (
            <Item key={name} name={name} topic={each} current={name === chosen} filter={filter} />
          ))}
        </ul>
        {found.length > LISTED && <p class="dim">{found.length - LISTED} further topics match: filter for them</p>}
        {can("topic_changes") && <NewTopic />}
      </nav>
      <div class="detail">{topic ? <TopicDetail key={chosen} name={chosen} topic={topic} /> : chosen ? <Missing what="topic" name={chosen} /> : <Empty>There is no topic yet.</Empty>}</div>
    </div>
  );
}

const Item = memo(({ name, topic, current, filter }: { name: string; topic: Topic; current: boolean; filter: string }) => (
  <li>
    <Link to={{ view: "topics", name, options: filter ? { filter } : {} }} current={current}>
      <Name of={name} />
      <span class="facts">
        {sizeOf(topic)}{topic.internal ? " · internal" : ""}
      </span>
    </Link>
  </li>
));

/** Return the number of partitions and, if all log end offsets are known, of records. */
function sizeOf(topic: Topic): string {
  const partitions = Object.values(topic.partitions);
  const size = counted(partitions.length, "partition");
  if (partitions.some((each) => each.end < 0)) return size;
  return `${size} · ${counted(partitions.reduce((sum, each) => sum + each.end - each.start, 0), "record")}`;
}

function NewTopic() {
  return (
    <details class="more">
      <summary>New topic</summary>
      <form
        class="stacked"
        onSubmit={(event) => {
          event.preventDefault();
          const form = event.currentTarget;
          const data = new FormData(form);
          const name = String(data.get("name"));
          void act(ask("POST", "/v1/topics", { name, partitions: Number(data.get("partitions")) }), `Topic ${name} is created`).then((done) => done && form.reset());
        }}
      >
        <label>
          Name <input name="name" required />
        </label>
        <label>
          Partitions <input name="partitions" type="number" min="1" value="1" required />
        </label>
        <button>Create</button>
      </form>
    </details>
  );
}

function TopicDetail({ name, topic }: { name: string; topic: Topic }) {
  const remove = async () => {
    if (await act(ask("DELETE", `/v1/topics/${encoded(name)}`), `Topic ${name} is deleted`)) go({ view: "topics", name: "", options: {} });
  };
  return (
    <>
      <div class="heading">
        <h2>
          <Name of={name} />
        </h2>
        <p class="facts">
          id {topic.id} · {sizeOf(topic)}
        </p>
        {!topic.internal && can("topic_changes") && (
          <div class="toolbar">
            <button type="button" onClick={remove}>
              Delete the topic
            </button>
          </div>
        )}
      </div>
      <section>
        <h3>Partitions</h3>
        <Table label="Partitions" tall columns={["#Partition", "#Start", "#End", "#Records", "Leader"]}>
          {Object.entries(topic.partitions).map(([index, partition]) => (
            <PartitionRow key={index} topic={name} index={Number(index)} partition={partition} brokers={state.value?.cluster.brokers.length ?? 1} />
          ))}
        </Table>
      </section>
      {can("records") && <Records topic={name} partitions={Object.keys(topic.partitions).length} />}
    </>
  );
}

const PartitionRow = memo(({ topic, index, partition, brokers }: { topic: string; index: number; partition: Partition; brokers: number }) => {
  const move = (broker: number) => act(ask("POST", `/v1/topics/${encoded(topic)}/partitions/${index}/leader`, { broker }), `Broker ${broker} leads partition ${index}`);
  return (
    <tr>
      <th scope="row" class="number">
        {index}
      </th>
      <td class="number">{number(partition.start)}</td>
      <td class="number">{partition.end < 0 ? "?" : number(partition.end)}</td>
      <td class="number">{partition.end < 0 ? "?" : number(partition.end - partition.start)}</td>
      <td>
        {brokers > 1 && can("moves") ? (
          <select aria-label={`Leader of partition ${index}`} value={partition.leader} onChange={(event) => move(Number(event.currentTarget.value))}>
            {partition.leader < 0 && <option value={partition.leader}>none</option>}
            {state.peek()?.cluster.brokers.map((broker) => (
              <option key={broker.id} value={broker.id}>
                broker {broker.id}
              </option>
            ))}
          </select>
        ) : (
          `broker ${partition.leader}`
        )}
      </td>
    </tr>
  );
});
