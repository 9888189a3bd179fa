/** Requests to the control API. */

export interface Detail {
  path: string;
  detail: string;
  possible?: string[];
}

/** An error response of the API (RFC 9457), or no response at all (status 0). */
export class Problem extends Error {
  readonly status: number;
  readonly errors: Detail[];

  constructor(status: number, detail: string, errors: Detail[] = []) {
    super(detail);
    this.status = status;
    this.errors = errors;
  }
}

/** Send a request and return the JSON of its response. Raises: Problem. */
export async function ask<T>(method: string, path: string, body?: unknown): Promise<T> {
  let response: Response;
  try {
    response = await fetch(path, body === undefined ? { method } : { method, body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
  } catch {
    throw new Problem(0, "the server does not respond");
  }
  const text = await response.text();
  const content: unknown = text && response.headers.get("content-type")?.includes("json") ? JSON.parse(text) : null;
  if (response.ok) return content as T;
  const problem = content as { detail?: string; errors?: Detail[] } | null;
  throw new Problem(response.status, problem?.detail ?? `status ${response.status}`, problem?.errors ?? []);
}

export const read = <T>(path: string): Promise<T> => ask<T>("GET", path);
