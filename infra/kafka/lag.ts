import type { RangeReader } from './range-reader.ts'

/** Up to this distance a fetch finds out whether only transaction markers are left. */
const PROBE_BELOW = 5_000

/** A position in a partition, and the end that it is measured against. */
interface Stretch {
  topic: string
  partition: number
  position: number
  end: number
}

/** The position moved over what no consumer ever sees: expired records, transaction markers and aborted records. */
export async function nextRecordAt(
  reader: Pick<RangeReader, 'start' | 'fetch'>,
  { topic, partition, position, end }: Stretch,
): Promise<number> {
  let at = position
  if (at < end) at = Math.max(at, await reader.start(topic, partition))
  while (at < end && end - at <= PROBE_BELOW) {
    const next = new Map([[partition, at]])
    const [fetched] = await reader.fetch(topic, next, 0)
    const moved = next.get(partition) ?? at
    if (fetched === undefined || fetched.records.length > 0 || moved === at) break
    at = moved
  }
  return at
}
