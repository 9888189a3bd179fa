// What one line asks, done with a client of its own.
"use strict"

const { AssignerProtocol, CompressionTypes, ConfigResourceTypes, Kafka } = require("kafkajs")
const request = require("./http")

const ACKS = { 0: 0, 1: 1, all: -1 }
const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP }

const produce = async (kafka, asked) => {
  const producer = kafka.producer({ idempotent: asked.idempotent })
  await producer.connect()
  const timestamp = asked.timestamp === null ? undefined : String(asked.timestamp)
  await producer.send({
    topic: asked.topic,
    acks: ACKS[asked.acks],
    compression: CODECS[asked.compression],
    messages: asked.records.map(({ partition, value }) => ({ partition, value, timestamp })),
  })
  await producer.disconnect()
}

// kafkajs reads in groups only, so this makes one.
const read = async (kafka, asked) => {
  const groupId = `reader-${process.hrtime.bigint()}`
  const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 100, readUncommitted: !asked.committed })
  const found = []
  await consumer.connect()
  await consumer.subscribe({ topic: asked.topic, fromBeginning: true })
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
    consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        const offset = Number(message.offset)
        if (partition !== asked.partition || offset < asked.start || found.length >= asked.wanted) return
        found.push([offset, message.value.toString()])
        if (found.length === asked.wanted) resolve()
      },
    })
    consumer.seek({ topic: asked.topic, partition: asked.partition, offset: String(asked.start) })
  })
  await consumer.disconnect()
  return found
}

const producing = { produce, read }

const administrating = {
  ends: async (admin, { topic, partition }) => {
    const found = (await admin.fetchTopicOffsets(topic)).find(one => one.partition === partition)
    return [Number(found.low), Number(found.high)]
  },
  at: async (admin, { topic, partition, timestamp }) => {
    const listed = await admin.fetchTopicOffsetsByTimestamp(topic, timestamp)
    return Number(listed.find(one => one.partition === partition).offset)
  },
  create_topic: (admin, { topic, partitions, replicas }) =>
    admin.createTopics({ topics: [{ topic, numPartitions: partitions, replicationFactor: replicas }] }),
  delete_topic: (admin, { topic }) => admin.deleteTopics({ topics: [topic] }),
  create_partitions: (admin, { topic, partitions }) =>
    admin.createPartitions({ topicPartitions: [{ topic, count: partitions }] }),
  partitions: async admin => {
    const { topics } = await admin.fetchTopicMetadata()
    return Object.fromEntries(topics.map(({ name, partitions }) => [name, partitions.length]))
  },
  configs: async (admin, { topic }) => {
    const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic }]
    const described = await admin.describeConfigs({ resources, includeSynonyms: false })
    return Object.fromEntries(described.resources[0].configEntries.map(entry => [entry.configName, entry.configValue]))
  },
  nodes: async admin => (await admin.describeCluster()).brokers.map(({ nodeId }) => nodeId),
  groups: async admin => (await admin.listGroups()).groups.map(({ groupId }) => groupId),
  members: async (admin, { group }) => {
    const [described] = (await admin.describeGroups([group])).groups
    const shares = described.members.map(({ clientId, memberAssignment }) => {
      const { assignment } = AssignerProtocol.MemberAssignment.decode(memberAssignment) ?? { assignment: {} }
      const pairs = Object.entries(assignment).flatMap(([topic, indexes]) => indexes.map(index => [topic, index]))
      return [clientId, pairs.sort((a, b) => a[0].localeCompare(b[0]) || a[1] - b[1])]
    })
    return { state: described.state, members: Object.fromEntries(shares) }
  },
  delete_group: (admin, { group }) => admin.deleteGroups([group]),
  committed: async (admin, { group }) =>
    (await admin.fetchOffsets({ groupId: group })).flatMap(({ topic, partitions }) =>
      partitions.map(({ partition, offset }) => [topic, partition, Number(offset)])
    ),
  commit_for: (admin, { group, topic, partition, offset }) =>
    admin.setOffsets({ groupId: group, topic, partitions: [{ partition, offset: String(offset) }] }),
}

module.exports = async (settings, asked) => {
  try {
    if (asked.call === "http") return { answer: await request(asked) }
    const kafka = new Kafka(settings)
    if (producing[asked.call]) return { answer: (await producing[asked.call](kafka, asked)) ?? null }
    const admin = kafka.admin()
    await admin.connect()
    try {
      const answer = await administrating[asked.call](admin, asked)
      return { answer: answer === undefined || answer === true ? null : answer }
    } finally {
      await admin.disconnect()
    }
  } catch (error) {
    return { error: String(error.stack ?? error) }
  }
}
