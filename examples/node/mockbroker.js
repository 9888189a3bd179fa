// A mock Kafka cluster as a child process, and a client of its control API. Needs Node.js 18 and no package.

import { spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync } from "node:fs"
import { mkdtemp, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"

const COMMAND = process.env.MOCKBROKER ?? "mockbroker"
const READY_WITHIN_MS = 20_000

/** A request was refused, or a wait timed out: the HTTP status, and the server's description of the problem. */
export class ControlError extends Error {
  constructor(status, problem) {
    super(`${status}: ${JSON.stringify(problem)}`)
    this.status = status
    this.problem = problem
  }
}

/** The control API of a running broker. */
export class Control {
  constructor(url, token = process.env.MOCKBROKER_HTTP_TOKEN) {
    this.url = url
    this.authorization = token ? { Authorization: `Bearer ${token}` } : {}
  }

  /** Append records, each an object such as { key, value, partition }; return the offset of each. */
  async produce(topic, records) {
    return (await this.call("POST", `/topics/${encodeURIComponent(topic)}/records`, { records })).offsets
  }

  /** Add a fault rule: { name, match, occurrence, action }. */
  addFault(rule) {
    return this.call("POST", "/faults", rule)
  }

  /** Wait until a rule was applied to this number of requests, and return it. */
  waitApplied(name, applied = 1, timeoutMs = 5_000) {
    return this.call("GET", `/faults/${encodeURIComponent(name)}/wait?applied=${applied}&timeout_ms=${timeoutMs}`)
  }

  /** Return a group: its state, generation, members, and committed offsets with lag. */
  group(id) {
    return this.call("GET", `/groups/${encodeURIComponent(id)}`)
  }

  /** Wait until a group meets all conditions, such as { state, members, min_generation }, and return it. */
  waitGroup(id, conditions, timeoutMs = 5_000) {
    const query = new URLSearchParams({ ...conditions, timeout_ms: timeoutMs })
    return this.call("GET", `/groups/${encodeURIComponent(id)}/wait?${query}`)
  }

  /** Return the latest requests to one API, with their responses. */
  async requests(api) {
    return (await this.call("GET", `/requests?${new URLSearchParams({ api })}`)).items
  }

  /** Send any request; path: what follows /v1, percent-encoded. */
  async call(method, path, body) {
    const response = await fetch(`${this.url}/v1${path}`, {
      method,
      headers: { "Content-Type": "application/json", ...this.authorization },
      body: body && JSON.stringify(body),
    })
    const text = await response.text()
    const answer = text ? JSON.parse(text) : undefined
    if (!response.ok) throw new ControlError(response.status, answer)
    return answer
  }
}

/** A broker that this process has started. It also stops when this process dies, because that closes its stdin. */
export class MockBroker extends Control {
  /** Start a broker; options: more options of `mockbroker serve`. */
  static async start(...options) {
    const folder = await mkdtemp(join(tmpdir(), "mockbroker-"))
    const ready = join(folder, "ready.json")
    const words = ["serve", "--port", "0", "--http", "0", "--ready-file", ready, "--stop-on-stdin-eof", ...options]
    const child = spawn(COMMAND, words, { stdio: ["pipe", "ignore", "inherit"] })
    let failure
    const ended = new Promise((resolve) => child.once("close", resolve))
    child.once("error", (error) => (failure = error)) // the command does not exist
    const giveUp = Date.now() + READY_WITHIN_MS
    while (!existsSync(ready)) {
      if (failure || child.exitCode !== null || Date.now() > giveUp) {
        child.kill("SIGKILL")
        await rm(folder, { recursive: true })
        throw failure ?? new Error(`mockbroker is not ready: exit code ${child.exitCode}`)
      }
      await sleep(20)
    }
    const { bootstrap_servers: bootstrapServers, http } = JSON.parse(await readFile(ready, "utf8"))
    await rm(folder, { recursive: true })
    const broker = new MockBroker(http)
    return Object.assign(broker, { bootstrapServers, child, ended })
  }

  /** Stop the broker, and wait until it has ended. */
  async stop() {
    this.child.kill("SIGTERM")
    const code = await this.ended
    if (code !== 0) throw new Error(`mockbroker has ended with exit code ${code}`)
  }
}
