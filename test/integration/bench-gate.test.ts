/**
 * The benchmarks' gate on a real broker: what is behind it is seen by no reader, then by all, and it leaves no trace.
 */
import { expect } from 'chai'
import { follow } from '#infra/kafka/follower.ts'
import { openPublisher } from '#infra/kafka/publisher.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { openGate } from '#test/bench/gate.ts'
import { eventually } from '#test/harness/eventually.ts'
import { ratesRecord } from '#test/harness/published-records.ts'
import { useServers } from '#test/harness/use-servers.ts'

describe('bench gate', () => {
  const platform = useServers()

  it('holds records back while it is closed and lets all of them through when it opens', async () => {
    const kafka = platform.connect()
    const publisher = await openPublisher(kafka, 'ingest')
    const reader = await openRangeReader(kafka, [kafka.topicName('fx')])
    const gate = await openGate(kafka, 'fx')
    const stop = new AbortController()
    const seen: number[] = []
    const following = await follow(kafka, 'fx', {
      from: 'start',
      signal: stop.signal,
      onRecords: records => void seen.push(...records.map(({ offset }) => offset)),
    })
    await gate.hold()
    for (let asOf = 0; asOf < 3; asOf++) await publisher.send([ratesRecord(kafka.codec, asOf)])
    expect(await reader.stableEnd(kafka.topicName('fx'), 0)).to.equal(0)
    expect(await reader.end(kafka.topicName('fx'), 0)).to.equal(4)
    await gate.release()
    await eventually(() => seen.length === 3, 'the records behind the gate')
    expect(seen).to.deep.equal([1, 2, 3])
    stop.abort()
    await following.closed
    await Promise.all([gate.close(), publisher.close(), reader.close()])
  })
})
