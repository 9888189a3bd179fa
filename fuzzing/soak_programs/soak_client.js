// A client of the soak with kafkajs: ROLE TOPIC NAME LEDGER ADDRESSES, until SIGTERM. As in soak_clients.py, it appends
// each acknowledged or processed value to its ledger.
"use strict"

const fs = require("node:fs")
const { Kafka, logLevel } = require("kafkajs")

const [role, topic, name, ledger, addresses] = process.argv.slice(2)
const PAUSE_MS = 50 // between two records of a producer
const kafka = new Kafka({
  clientId: name,
  brokers: [JSON.parse(addresses).SASL_PLAINTEXT],
  sasl: { mechanism: "scram-sha-256", username: "alice", password: "secret" },
  retry: { retries: 20, maxRetryTime: 2_000 },
  logLevel: logLevel.NOTHING,
})
const sleep = milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds))
let stopped = false

const note = value => fs.appendFileSync(ledger, value + "\n")

const produce = async () => {
  const producer = kafka.producer()
  await producer.connect()
  try {
    for (let number = Date.now() * 1_000; !stopped; number++) {
      const value = `${name}-${number}`
      await producer.send({ topic, acks: -1, messages: [{ key: value, value }] })
      note(value)
      await sleep(PAUSE_MS)
    }
  } finally {
    await producer.disconnect()
  }
}

// A member of a classic group; the offsets of a batch are committed after its values are in the ledger.
const consume = async () => {
  const consumer = kafka.consumer({ groupId: "kafkajs", sessionTimeout: 6_000, heartbeatInterval: 1_000 })
  await consumer.connect()
  try {
    await consumer.subscribe({ topic, fromBeginning: true })
    let failed = null
    consumer.on(consumer.events.CRASH, ({ payload }) => {
      if (!payload.restart) failed = payload.error
    })
    await consumer.run({
      eachBatchAutoResolve: false,
      eachBatch: async ({ batch, resolveOffset, heartbeat }) => {
        for (const message of batch.messages) {
          note(message.value.toString())
          resolveOffset(message.offset)
        }
        await heartbeat()
      },
    })
    while (!stopped && !failed) await sleep(200)
    if (failed) throw failed
  } finally {
    await consumer.disconnect()
  }
}

const main = async () => {
  process.on("SIGTERM", () => {
    stopped = true
  })
  while (!stopped) {
    try {
      await (role === "produce-kafkajs" ? produce() : consume())
    } catch (error) {
      process.stderr.write(`${name}: ${error}\n`)
      await sleep(500)
    }
  }
  process.exit(0)
}

main()
