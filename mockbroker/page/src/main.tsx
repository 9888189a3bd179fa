/** The start of the live page. */

import { render } from "preact";
import "./style/index.css";
import { App } from "./App.tsx";
import { start, state } from "./data/live.ts";
import { logIn } from "./login.ts";

const main = document.getElementById("app");
const form = document.getElementById("login");
if (form instanceof HTMLFormElement) logIn(form);
else if (main) {
  start();
  const end = state.subscribe((value) => {
    if (!value) return; // until then the page is as the server has rendered it
    queueMicrotask(() => end());
    main.replaceChildren();
    render(<App />, main);
  });
}
