/**
 * Asks a cluster to make each partition's preferred replica, the first of its list, its leader (ElectLeaders, version 1).
 *
 * The pinned client lacks this request; its connection carries any.
 */
import { openCluster } from '#infra/kafka/client/cluster.ts'
import { Decoder, Encoder, type WireDecoder, type WireEncoder } from '#infra/kafka/client/wire.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'

const API_KEY = 43
const PREFERRED = 0
const LIMIT_MS = 10_000
/** The preferred replica leads already. */
const ELECTION_NOT_NEEDED = 84

/** Partitions by topic. */
export type Partitions = ReadonlyMap<string, readonly number[]>

/** Elects; throws what the controller refuses. */
export async function electPreferredLeaders(kafka: KafkaConnection, partitions: Partitions): Promise<void> {
  const cluster = openCluster({ ...kafka, clientId: `${kafka.namespace}${kafka.role}-election` })
  await cluster.connect()
  try {
    await cluster.refreshMetadata()
    const { connectionPool } = await cluster.findControllerBroker()
    const refused = await connectionPool.send<string[]>({
      request: { apiKey: API_KEY, apiVersion: 1, apiName: 'ElectLeaders', encode: async () => encode(partitions) },
      response: { decode: async (bytes: Buffer) => decode(new Decoder(bytes)), parse: decoded => decoded },
    })
    if (refused.length > 0) throw new Error(refused.join('; '))
  } finally {
    await cluster.disconnect()
  }
}

function encode(partitions: Partitions): WireEncoder {
  const topics = [...partitions].map(([topic, numbers]) =>
    new Encoder().writeString(topic).writeArray(numbers.map(number => new Encoder().writeInt32(number))),
  )
  return new Encoder().writeInt8(PREFERRED).writeArray(topics).writeInt32(LIMIT_MS)
}

function decode(decoder: WireDecoder): string[] {
  decoder.readInt32() // throttle time
  const code = decoder.readInt16()
  const refused = decoder.readArray(one => {
    const topic = one.readString()
    return one.readArray(each => ({
      topic,
      partition: each.readInt32(),
      code: each.readInt16(),
      why: each.readString(),
    }))
  })
  return [
    ...(code === 0 ? [] : [`the election failed with code ${code}`]),
    ...refused
      .flat()
      .filter(each => each.code !== 0 && each.code !== ELECTION_NOT_NEEDED)
      .map(({ topic, partition, why }) => `${topic}-${partition}: ${why}`),
  ]
}
