// kafkajs, which polls by itself: node recorded.js SERVERS POLL_MS
"use strict"

const { Kafka, logLevel } = require("kafkajs")

process.env.KAFKAJS_NO_PARTITIONER_WARNING = "1"
const [, , servers, poll] = process.argv
const topic = "orders"
const kafka = clientId => new Kafka({ brokers: servers.split(","), clientId, logLevel: logLevel.ERROR })

const main = async () => {
  const producer = kafka("shop").producer()
  await producer.connect()
  for (let number = 0; number < 6; number++) {
    await producer.send({ topic, messages: [{ partition: number % 2, value: `order ${number}` }] })
  }
  await producer.disconnect()

  const consumer = kafka("reader").consumer({ groupId: "billing", maxWaitTimeInMs: Number(poll) })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  const next = {}
  let found = 0
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
    consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        console.log(message.value.toString())
        next[partition] = String(Number(message.offset) + 1)
        if (++found === 6) resolve()
      },
    })
  })
  await consumer.commitOffsets([0, 1].map(partition => ({ topic, partition, offset: next[partition] })))
  await consumer.disconnect()
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
