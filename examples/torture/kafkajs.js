// A consumer and producer with kafkajs, for `mockbroker torture -- node kafkajs.js`.

const fs = require("fs")
const { Kafka, logLevel } = require("kafkajs")

const variable = (name) => process.env[`MOCKBROKER_${name}`]
const topic = variable("TOPIC")
const protocol = variable("SECURITY_PROTOCOL") || "PLAINTEXT"
const kafka = new Kafka({
  brokers: variable("BOOTSTRAP_SERVERS").split(","),
  logLevel: logLevel.ERROR,
  connectionTimeout: 3000,
  requestTimeout: 3000,
  retry: { initialRetryTime: 100, maxRetryTime: 1000, retries: 3 },
  ssl: protocol.endsWith("SSL") ? { ca: [fs.readFileSync(variable("TLS_CA"))] } : undefined,
  sasl: protocol.startsWith("SASL")
    ? {
        mechanism: variable("SASL_MECHANISM").toLowerCase(),
        username: variable("SASL_USERNAME"),
        password: variable("SASL_PASSWORD"),
        oauthBearerProvider: async () => ({ value: variable("SASL_TOKEN") }),
      }
    : undefined,
})
const pause = () => new Promise((resolve) => setTimeout(resolve, 500))

// Begins again after an error, as an application does that is restarted. kafkajs restarts consumers only after errors
// that it can retry.
const forever = async (what, run) => {
  for (;;) {
    try {
      await run()
    } catch (error) {
      console.log(`${what}: ${error}`)
    }
    await pause()
  }
}

const consume = async () => {
  const consumer = kafka.consumer({
    groupId: variable("GROUP"),
    sessionTimeout: 6000,
    heartbeatInterval: 500,
    rebalanceTimeout: 10000,
    metadataMaxAge: 3000,
    maxWaitTimeInMs: 500,
  })
  const crashed = new Promise((_, reject) =>
    consumer.on(consumer.events.CRASH, ({ payload }) => payload.restart || reject(payload.error)),
  )
  try {
    await consumer.connect()
    await consumer.subscribe({ topic, fromBeginning: true })
    await consumer.run({ eachMessage: async () => {} })
    await crashed
  } finally {
    await consumer.disconnect()
  }
}

const produce = async () => {
  const producer = kafka.producer({ metadataMaxAge: 3000 })
  try {
    await producer.connect()
    for (;;) {
      await producer.send({ topic: `${topic}-results`, messages: [{ value: "tea" }] })
      await pause()
    }
  } finally {
    await producer.disconnect()
  }
}

forever("consumer", consume)
forever("producer", produce)
