/**
 * The benchmarks' gate on a real broker: what is behind it is seen by no reader, then by all, and it leaves no trace.
 */
import { expect } from 'chai'
import { follow } from '#infra/kafka/follower.ts'
import { openPublisher } from '#infra/kafka/publisher.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { fxRatesPublished } from '#schemas/events/fx-rates-published.ts'
import { openGate } from '#test/bench/gate.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'

describe('bench gate', function () {
  this.timeout(60_000)
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
    for (let as_of = 0; as_of < 3; as_of++) {
      const value = kafka.codec.encode(fxRatesPublished, { as_of, source: 'test', rates: { USD: '1' } })
      await publisher.send([{ topic: 'fx', key: 'USD', value }])
    }
    expect(await reader.stableEnd(kafka.topicName('fx'), 0)).to.equal(0)
    expect(await reader.end(kafka.topicName('fx'), 0)).to.equal(4)
    await gate.release()
    await eventually(() => seen.length === 3, 30_000, 'the records behind the gate')
    expect(seen).to.deep.equal([1, 2, 3])
    stop.abort()
    await following.closed
    await Promise.all([gate.close(), publisher.close(), reader.close()])
  })
})
