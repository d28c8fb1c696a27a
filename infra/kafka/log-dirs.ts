/**
 * Asks a broker how many bytes each of its partitions has on disk (DescribeLogDirs, version 1).
 *
 * The pinned client lacks this request; its connection carries any. Reads only. Invariant: what the broker marks as
 * a future replica is not counted, so a partition that is being moved counts once.
 */
import { Decoder, Encoder, type WireConnection, type WireDecoder } from './client/wire.ts'

/** The bytes of a partition on one broker. */
export interface PartitionBytes {
  topic: string
  partition: number
  bytes: number
}

const API_KEY = 35
const ALL_TOPICS = -1

/** The bytes of every partition of a broker. */
export async function readLogDirs(connection: WireConnection): Promise<PartitionBytes[]> {
  return connection.send<PartitionBytes[]>({
    request: {
      apiKey: API_KEY,
      apiVersion: 1,
      apiName: 'DescribeLogDirs',
      encode: async () => new Encoder().writeInt32(ALL_TOPICS),
    },
    response: { decode: async (bytes: Buffer) => decode(new Decoder(bytes)), parse: decoded => decoded },
  })
}

function decode(decoder: WireDecoder): PartitionBytes[] {
  decoder.readInt32() // throttle time
  return decoder
    .readArray(dirs => {
      dirs.readInt16() // error code: a directory that is offline lists nothing
      dirs.readString()
      return dirs
        .readArray(one => {
          const topic = one.readString()
          return one.readArray(each => {
            const partition = each.readInt32()
            const bytes = Number(each.readInt64().toString())
            each.readInt64() // distance of a replica that is being filled
            return { topic, partition, bytes, isFuture: each.readBoolean() }
          })
        })
        .flat()
    })
    .flat()
    .filter(({ isFuture }) => !isFuture)
    .map(({ topic, partition, bytes }) => ({ topic, partition, bytes }))
}
