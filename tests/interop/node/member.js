// A member of a classic group. Commands come on stdin, what happens goes out as JSON lines.
"use strict"

const { Kafka, PartitionAssigners } = require("kafkajs")

const sorted = shares =>
  Object.entries(shares)
    .flatMap(([topic, partitions]) => partitions.map(partition => [topic, partition]))
    .sort((a, b) => a[0].localeCompare(b[0]) || a[1] - b[1])

module.exports = (settings, asked, lines, tell) => {
  const consumer = new Kafka(settings).consumer({
    groupId: asked.group,
    sessionTimeout: asked.session_ms,
    heartbeatInterval: asked.heartbeat_ms,
    maxWaitTimeInMs: 100, // heartbeats go out between fetches
    metadataMaxAge: 1000,
    // kafkajs has one, called RoundRobinAssigner; under the name that others give it, it can share a group with them
    partitionAssigners: [config => ({ ...PartitionAssigners.roundRobin(config), name: asked.assignor })],
  })
  const positions = new Map()

  const consume = async () => {
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) =>
      tell({ event: "assigned", partitions: sorted(payload.memberAssignment) })
    )
    await consumer.connect()
    await consumer.subscribe({ topic: asked.topic, fromBeginning: asked.reset === "earliest" })
    await consumer.run({
      autoCommit: false,
      eachMessage: async ({ topic, partition, message }) => {
        tell({ event: "record", topic, partition, offset: Number(message.offset), value: message.value.toString() })
        positions.set(partition, String(BigInt(message.offset) + 1n))
      },
    })
  }
  const commands = {
    commit: async () => {
      const offsets = [...positions].map(([partition, offset]) => ({ topic: asked.topic, partition, offset }))
      await consumer.commitOffsets(offsets)
      tell({ event: "committed" })
    },
    leave: async () => {
      await consumer.disconnect()
      tell({ event: "left" })
      process.exit(0)
    },
  }

  const joined = consume() // before that, kafkajs ends without leaving the group
  lines.on("line", line => joined.then(commands[line]))
  lines.on("close", () => process.exit(3)) // the test is gone, so nobody needs this member
}
