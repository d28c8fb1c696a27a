import { expect } from 'chai'
import fc from 'fast-check'
import { eventsOf } from '#services/clients/typescript/src/events.ts'

const STREAM = [
  ': a comment\n\n',
  'id: p1\nevent: ready\ndata: {"providers":["provider_01"]}\n\n',
  ': ping\n\n',
  'event: prices.changed\nid: p2\ndata: {"items":["★ Karambit | Doppler (Factory New)"]}\n\n',
  'retry: 1234\n: closed: the server is stopping\n\n',
].join('')
const EVENTS = [
  { event: 'ready', data: '{"providers":["provider_01"]}', id: 'p1' },
  { event: 'prices.changed', data: '{"items":["★ Karambit | Doppler (Factory New)"]}', id: 'p2' },
]

async function eventsIn(chunks: readonly string[], onRetry?: (ms: number) => void) {
  async function* arriving() {
    yield* chunks
  }
  const events: object[] = []
  for await (const { event, data, id } of eventsOf(arriving(), onRetry)) events.push({ event, data, id })
  return events
}

describe('the events of a feed', () => {
  it('are the same however their text is cut', () =>
    fc.assert(
      fc.asyncProperty(fc.array(fc.nat(STREAM.length)), async cuts => {
        const ends = [0, ...cuts.sort((a, b) => a - b), STREAM.length]
        expect(await eventsIn(ends.map((end, at) => STREAM.slice(ends[at - 1] ?? 0, end)))).to.deep.equal(EVENTS)
      }),
    ))

  it('are whole: what a connection leaves of the last one is none', async () => {
    for (const end of ['', '\n', 'id: p3\n', 'event: prices.changed\nid: p3\ndata: {"items":[]}\n'])
      expect(await eventsIn([STREAM, end])).to.deep.equal(EVENTS)
  })

  it('come with the time at which the platform wants to see the client again', async () => {
    const waits: number[] = []
    await eventsIn([STREAM], ms => waits.push(ms))
    expect(waits).to.deep.equal([1234])
  })
})
