/**
 * The ids of topics, by which a topic that was deleted and created again differs from the one before it.
 *
 * One request a process every ten seconds, for all topics of the platform. The pinned client stops at version 6 of Metadata, which
 * has no ids; this is version 12. Its form is the flexible one: lengths are variable and one more than they say, and every
 * structure, the headers too, ends with tagged fields.
 */
import { coalesceAlike } from '#infra/runtime/async/coalesce.ts'
import type { TopicIds } from '#infra/runtime/role.ts'
import { allTopics, topics } from '#schemas/topics.ts'
import { openCluster, sendRequest } from './client/cluster.ts'
import { Encoder, type WireDecoder, type WireEncoder } from './client/wire.ts'
import type { KafkaConnection } from './connection.ts'

const EVERY_MS = 10_000

export function openTopicIds(kafka: KafkaConnection): TopicIds {
  const cluster = openCluster(kafka, 'topic-ids')
  const names = allTopics.map(({ name }) => `${kafka.namespace}${name}`)
  const listeners = new Set<{ names: readonly string[]; listener: () => void }>()
  let lastIds: ReadonlyMap<string, string> | undefined
  let isClosed = false

  /** An answer under way may be older than what its caller has seen, so those that ask meanwhile share the next one. */
  const ask = coalesceAlike(async (): Promise<ReadonlyMap<string, string>> => {
    if (isClosed) throw new Error('the ids of topics are read no more')
    await cluster.connect()
    await cluster.refreshMetadataIfNecessary()
    const request = { apiName: 'Metadata', apiKey: METADATA, apiVersion: VERSION, body: encodeMetadata(names) }
    const [before, ids] = [lastIds, await sendRequest(await cluster.findControllerBroker(), request, decodeMetadata)]
    lastIds = ids
    const changed = new Set(names.filter(name => before !== undefined && before.get(name) !== ids.get(name)))
    for (const { names: own, listener } of listeners) if (own.some(name => changed.has(name))) listener()
    return ids
  })
  const poll = (): void => {
    ask().catch(error => kafka.log.debug({ error }, 'the ids of topics could not be read'))
  }
  const timer = setInterval(poll, EVERY_MS)
  return {
    async idOf(topic) {
      const id = (await ask()).get(kafka.topicName(topic))
      if (id === undefined) throw new Error(`there is no topic ${topics[topic].name}`)
      return id
    },
    onChange(watched, listener) {
      const entry = { names: watched.map(kafka.topicName), listener }
      listeners.add(entry)
      return () => void listeners.delete(entry)
    },
    async close() {
      isClosed = true
      clearInterval(timer)
      // Comes after what is under way.
      await ask().catch(() => undefined)
      await cluster.disconnect()
    },
  }
}

const METADATA = 3
const VERSION = 12
const ID_BYTES = 16
const NO_ID = Buffer.alloc(ID_BYTES)

function encodeMetadata(topics: readonly string[]): WireEncoder {
  const requested = topics.map(topic => new Encoder().writeBuffer(NO_ID).writeUVarIntString(topic).writeUVarInt(0))
  const mayCreate = false
  const withRights = false
  return new Encoder()
    .writeUVarInt(0) // tagged fields of the header
    .writeUVarIntArray(requested)
    .writeBoolean(mayCreate)
    .writeBoolean(withRights)
    .writeUVarInt(0)
}

function decodeMetadata(decoder: WireDecoder): Map<string, string> {
  decoder.readTaggedFields() // of the header
  decoder.readInt32() // throttle time
  decoder.readUVarIntArray(broker => {
    broker.readInt32() // node
    broker.readUVarIntString() // host
    broker.readInt32() // port
    broker.readUVarIntString() // rack
    broker.readTaggedFields()
  })
  decoder.readUVarIntString() // cluster
  decoder.readInt32() // controller
  const topics = decoder.readUVarIntArray(readTopic) ?? []
  return new Map(topics.flatMap(({ name, id, errorCode }) => (errorCode === 0 ? [[name, id]] : [])))
}

function readTopic(decoder: WireDecoder): { errorCode: number; name: string; id: string } {
  const errorCode = decoder.readInt16()
  const name = decoder.readUVarIntString() ?? ''
  const id = Buffer.from(decoder.readBytes(ID_BYTES))
  decoder.readBoolean() // internal
  decoder.readUVarIntArray(partition => {
    partition.readInt16() // error
    partition.readInt32() // partition
    partition.readInt32() // leader
    partition.readInt32() // its epoch
    for (let lists = 0; lists < 3; lists++) partition.readUVarIntArray(node => node.readInt32()) // replicas, in sync, offline
    partition.readTaggedFields()
  })
  decoder.readInt32() // rights
  decoder.readTaggedFields()
  return { errorCode, name, id: id.toString('base64url') }
}
