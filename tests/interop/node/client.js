// kafkajs at the test's command: `client.js member OPTIONS` is a group member, `client.js transform
// OPTIONS` works in transactions, `client.js ask` answers questions.
"use strict"

const fs = require("node:fs")
const readline = require("node:readline")
const { logLevel } = require("kafkajs")
const answer = require("./ask")
const runMember = require("./member")
const runTransformer = require("./transform")

process.env.KAFKAJS_NO_PARTITIONER_WARNING = "1"

// Writes one JSON line.
const tell = line => process.stdout.write(JSON.stringify(line) + "\n")

const sasl = ({ mechanism, user, password, token }) =>
  mechanism === "OAUTHBEARER"
    ? { mechanism: "oauthbearer", oauthBearerProvider: async () => ({ value: token }) }
    : { mechanism: mechanism.toLowerCase(), username: user, password }

const tls = ({ ca, client }) => {
  const own = client && fs.readFileSync(client)
  return { ca: [fs.readFileSync(ca)], ...(own && { key: own, cert: own }) }
}

const settings = options => ({
  ...(options.security?.mechanism && { sasl: sasl(options.security), reauthenticationThreshold: 300 }),
  ...(options.security?.ca && { ssl: tls(options.security) }),
  brokers: options.bootstrap?.split(",") ?? [],
  clientId: options.client_id ?? "kafkajs",
  retry: { initialRetryTime: 50, maxRetryTime: 500, retries: 20 },
  logLevel: logLevel.WARN,
  logCreator: () => ({ namespace, log }) => console.error(namespace, log.message, log.error ?? ""),
})

const [, , mode, options] = process.argv
const lines = readline.createInterface({ input: process.stdin })
const run = { member: runMember, transform: runTransformer }[mode]
if (run) {
  const asked = JSON.parse(options)
  run(settings(asked), asked, lines, tell)
} else {
  let earlier = Promise.resolve()
  lines.on("line", line => {
    const question = JSON.parse(line)
    earlier = earlier.then(async () => tell(await answer(settings(question), question)))
  })
}
