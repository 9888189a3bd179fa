/** The frame of the page: header, navigation, and the view of the place. */

import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { formatted, type View } from "./data/hash.ts";
import { can, leftOut, state } from "./data/live.ts";
import { visible } from "./data/names.ts";
import { counted } from "./data/numbers.ts";
import { place } from "./data/place.ts";
import { Guard } from "./parts/Guard.tsx";
import { Header } from "./parts/Header.tsx";
import { Notices } from "./parts/notices.tsx";
import { Brokers } from "./views/Brokers.tsx";
import { Events } from "./views/Events.tsx";
import { Faults } from "./views/Faults.tsx";
import { Groups } from "./views/Groups.tsx";
import { Requests } from "./views/Requests.tsx";
import { Topics } from "./views/Topics.tsx";
import { Transactions } from "./views/Transactions.tsx";

const SHOWN: Record<View, { title: string; render: () => ComponentChildren }> = {
  groups: { title: "Groups", render: () => <Groups /> },
  requests: { title: "Requests", render: () => <Requests /> },
  topics: { title: "Topics", render: () => <Topics /> },
  brokers: { title: "Brokers", render: () => <Brokers /> },
  transactions: { title: "Transactions", render: () => <Transactions /> },
  faults: { title: "Faults", render: () => <Faults /> },
  events: { title: "Events", render: () => <Events /> },
};

export function App() {
  const { view, name } = place.value;
  const { title, render } = SHOWN[view];
  useEffect(() => {
    document.title = `${visible(name) || title} – mockbroker`;
  }, [title, name]);
  return (
    <>
      <Header />
      <nav class="tabs" aria-label="Views">
        {Object.entries(SHOWN).filter(([each]) => each !== "transactions" || !state.value || can("transactions")).map(([each, { title }]) => (
          <a key={each} href={formatted({ view: each as View, name: "", options: {} })} aria-current={each === view ? "page" : undefined}>
            {title}
            <Count of={each as View} />
          </a>
        ))}
      </nav>
      <LeftOut />
      <Guard key={view}>{render()}</Guard>
      <Notices />
    </>
  );
}

/** The number of things in a view. */
function Count({ of }: { of: View }) {
  if (of === "requests" || of === "events") return null;
  const found = of === "brokers" ? state.value?.cluster.brokers : state.value?.[of];
  const count = Object.keys(found ?? {}).length + leftOut(of);
  return count ? <small> {count}</small> : null;
}

/** What the server does not send, because there is too much of it. */
function LeftOut() {
  const left = Object.entries(state.value?.left_out ?? {}).filter(([, count]) => count > 0);
  if (!left.length) return null;
  return <p class="sentence">Not shown: {left.map(([what, count]) => counted(count, what.replace(/s$/, ""))).join(", ")}. The control API has all of them.</p>;
}
