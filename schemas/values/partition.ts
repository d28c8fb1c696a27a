/**
 * The partition of a key by Kafka's default partitioner (murmur2 of the key's bytes).
 *
 * Equal to that of every Kafka client, so that the query service and readers outside the platform compute an item's
 * partition without reading the log. Source of the constants: org.apache.kafka.common.utils.Utils#murmur2.
 */

/** The partition of a key among `count`, 0-based. */
export function partitionOf(key: string, count: number): number {
  return (murmur2(Buffer.from(key)) & 0x7fffffff) % count
}

function murmur2(data: Buffer): number {
  const length = data.length
  const multiplier = 0x5bd1e995
  let hash = 0x9747b28c ^ length
  const words = length >> 2
  for (let i = 0; i < words; i++) {
    let word = Math.imul(data.readInt32LE(i * 4), multiplier)
    word = Math.imul(word ^ (word >>> 24), multiplier)
    hash = Math.imul(hash, multiplier) ^ word
  }
  const tail = words * 4
  if (length % 4 >= 3) hash ^= (data[tail + 2] ?? 0) << 16
  if (length % 4 >= 2) hash ^= (data[tail + 1] ?? 0) << 8
  if (length % 4 >= 1) hash = Math.imul(hash ^ (data[tail] ?? 0), multiplier)
  hash = Math.imul(hash ^ (hash >>> 13), multiplier)
  return (hash ^ (hash >>> 15)) | 0
}
