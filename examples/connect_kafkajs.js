// kafkajs in group `demo`: node examples/connect_kafkajs.js HOST:PORT

const { Kafka, logLevel } = require("kafkajs")

const main = async () => {
  const kafka = new Kafka({ brokers: process.argv[2].split(","), logLevel: logLevel.ERROR })
  const consumer = kafka.consumer({ groupId: "demo" })
  await consumer.connect()
  await consumer.subscribe({ topic: "orders", fromBeginning: true })
  await consumer.run({
    eachMessage: async ({ partition, message }) => console.log(partition, message.offset, message.value.toString()),
  })
}

main()
