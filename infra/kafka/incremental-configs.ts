/**
 * Changes single settings of topics and leaves their others alone (IncrementalAlterConfigs, version 0).
 *
 * The pinned client knows only the request that replaces a topic's whole configuration, and with it what an operator has set.
 */
import { openCluster } from './client/cluster.ts'
import { Decoder, Encoder, type WireDecoder, type WireEncoder } from './client/wire.ts'
import type { KafkaConnection } from './connection.ts'

/** Settings of a topic by name. */
export type TopicSettings = Record<string, string>

const API_KEY = 44
const TOPIC = 2
const SET = 0

interface Refused {
  code: number
  message: string
  name: string
}

/** Sets the named settings of topics; throws what the brokers refuse. */
export async function setTopicSettings(
  kafka: KafkaConnection,
  changes: ReadonlyMap<string, TopicSettings>,
): Promise<void> {
  const cluster = openCluster({ ...kafka, clientId: `${kafka.namespace}${kafka.role}-settings` })
  await cluster.connect()
  try {
    await cluster.refreshMetadata()
    // Any broker would do: it hands the request on to the controller.
    const { connectionPool } = await cluster.findControllerBroker()
    const refused = await connectionPool.send<Refused[]>({
      request: {
        apiKey: API_KEY,
        apiVersion: 0,
        apiName: 'IncrementalAlterConfigs',
        encode: async () => encode(changes),
      },
      response: { decode: async (bytes: Buffer) => decode(new Decoder(bytes)), parse: decoded => decoded },
    })
    if (refused.length > 0) throw new Error(refused.map(({ name, message }) => `${name}: ${message}`).join('; '))
  } finally {
    await cluster.disconnect()
  }
}

function encode(changes: ReadonlyMap<string, TopicSettings>): WireEncoder {
  const resources = [...changes].map(([topic, settings]) =>
    new Encoder()
      .writeInt8(TOPIC)
      .writeString(topic)
      .writeArray(
        Object.entries(settings).map(([name, value]) =>
          new Encoder().writeString(name).writeInt8(SET).writeString(value),
        ),
      ),
  )
  return new Encoder().writeArray(resources).writeBoolean(false)
}

function decode(decoder: WireDecoder): Refused[] {
  decoder.readInt32() // throttle time
  return decoder
    .readArray(one => {
      const code = one.readInt16()
      const message = one.readString()
      one.readInt8() // resource type
      return { code, message, name: one.readString() }
    })
    .filter(({ code }) => code !== 0)
}
