/** The login form that the server sends to a browser that needs a token. */

import { ask, Problem } from "./data/api.ts";

export function logIn(form: HTMLFormElement): void {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void send(form);
  });
}

async function send(form: HTMLFormElement): Promise<void> {
  try {
    await ask("POST", "/v1/session", { token: new FormData(form).get("token") });
    location.reload();
  } catch (error) {
    let alert = form.querySelector('[role="alert"]');
    if (!alert) {
      alert = document.createElement("p");
      alert.setAttribute("role", "alert");
      form.append(alert);
    }
    alert.textContent = error instanceof Problem ? error.message : String(error);
  }
}
