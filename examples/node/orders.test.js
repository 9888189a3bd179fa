// kafkajs, whose commit is answered REBALANCE_IN_PROGRESS. Run: npm ci && npm test

import assert from "node:assert/strict"
import { after, before, test } from "node:test"
import { Kafka, logLevel } from "kafkajs"
import { MockBroker } from "./mockbroker.js"

let broker

before(async () => {
  broker = await MockBroker.start("--topic", "orders:1", "--set", "group.initial.rebalance.delay.ms=0")
})
after(() => broker?.stop())

test("after a commit during a rebalance, kafkajs joins again and delivers again", { timeout: 15_000 }, async () => {
  await broker.produce("orders", [{ value: "soup" }, { value: "salad" }, { value: "cake" }])
  await broker.addFault({
    name: "commit-fails",
    match: { api: "OffsetCommit", group: "billing" },
    occurrence: { times: 1 },
    action: { error: "REBALANCE_IN_PROGRESS" },
  })

  const kafka = new Kafka({ brokers: broker.bootstrapServers.split(","), logLevel: logLevel.NOTHING })
  const consumer = kafka.consumer({ groupId: "billing", maxWaitTimeInMs: 500 })
  const billed = []
  try {
    await consumer.connect()
    await consumer.subscribe({ topic: "orders", fromBeginning: true })
    await new Promise((resolve, reject) => {
      consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
      consumer
        .run({
          eachMessage: async ({ message }) => {
            billed.push(message.value.toString()) // the code under test
            if (billed.length === 6) resolve()
          },
        })
        .catch(reject)
    })
    const fault = await broker.waitApplied("commit-fails")
    assert.equal(fault.applied, 1)
    const group = await broker.waitGroup("billing", { state: "Stable", members: 1 })
    assert.equal(group.generation, 2)
  } finally {
    await consumer.disconnect() // commits first
  }

  assert.deepEqual(billed, ["soup", "salad", "cake", "soup", "salad", "cake"]) // at least once: billing must cope
  const { offsets } = await broker.group("billing")
  assert.deepEqual(
    offsets.map(({ topic, partition, offset, lag }) => ({ topic, partition, offset, lag })),
    [{ topic: "orders", partition: 0, offset: 3, lag: 0 }],
  )
  const commits = await broker.requests("OffsetCommit")
  assert.deepEqual(commits.slice(0, 2).map((each) => each.fault), ["commit-fails", null])
})
