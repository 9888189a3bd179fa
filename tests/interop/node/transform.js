// Consume, transform, produce, in transactions. Commands come on stdin, what happens goes out as JSON lines.
"use strict"

const { Kafka } = require("kafkajs")

module.exports = async (settings, asked, lines, tell) => {
  const kafka = new Kafka(settings)
  const producer = kafka.producer({
    transactionalId: asked.transactional_id,
    transactionTimeout: asked.transaction_timeout_ms,
    idempotent: true,
    maxInFlightRequests: 1,
  })
  const consumer = kafka.consumer({
    groupId: asked.group,
    sessionTimeout: asked.session_ms,
    heartbeatInterval: asked.heartbeat_ms,
    maxWaitTimeInMs: 100,
  })
  const found = []
  let look = () => {} // whether enough is found
  let transaction
  let positions = new Map()

  const records = number =>
    new Promise(resolve => {
      look = () => {
        if (found.length < number) return
        look = () => {}
        resolve(found.splice(0, number))
      }
      look()
    })
  const commands = {
    take: async number => {
      if (!transaction.isActive()) transaction = await producer.transaction()
      positions = new Map()
      for (const { topic, partition, message } of await records(Number(number))) {
        const value = message.value.toString()
        tell({ event: "record", topic, partition, offset: Number(message.offset), value })
        await transaction.send({ topic: asked.output, messages: [{ partition, value: `${value}, done` }] })
        positions.set(partition, String(BigInt(message.offset) + 1n))
      }
      const partitions = [...positions].map(([partition, offset]) => ({ partition, offset }))
      await transaction.sendOffsets({ consumerGroupId: asked.group, topics: [{ topic: asked.topic, partitions }] })
      tell({ event: "taken" })
    },
    commit: async () => {
      await transaction.commit()
      tell({ event: "committed" })
    },
    abort: async () => {
      await transaction.abort()
      await rewind()
      tell({ event: "aborted" })
    },
    leave: async () => {
      await consumer.disconnect()
      await producer.disconnect()
      tell({ event: "left" })
      process.exit(0)
    },
  }

  // To where the group is: what was aborted comes again.
  const rewind = async () => {
    const admin = kafka.admin()
    await admin.connect()
    const [{ partitions }] = await admin.fetchOffsets({ groupId: asked.group, topics: [asked.topic] })
    await admin.disconnect()
    for (const { partition, offset } of partitions.filter(({ partition }) => positions.has(partition))) {
      consumer.seek({ topic: asked.topic, partition, offset: String(Math.max(Number(offset), 0)) })
    }
  }

  const start = async () => {
    await producer.connect()
    transaction = await producer.transaction() // it is this that takes the transactional id
    tell({ event: "ready" })
    await consumer.connect()
    await consumer.subscribe({ topic: asked.topic, fromBeginning: true })
    await consumer.run({
      autoCommit: false,
      eachMessage: async one => {
        found.push(one)
        look()
      },
    })
  }
  const lost = error => {
    tell({ event: "fenced", error: `${error.type}: ${error.message}` })
    process.exit(["PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"].includes(error.type) ? 4 : 1)
  }

  let earlier = start()
  lines.on("line", line => {
    const [command, ...words] = line.split(" ")
    earlier = earlier.then(() => commands[command](...words)).catch(lost)
  })
  lines.on("close", () => process.exit(3)) // the test is gone, so nobody needs this one
}
