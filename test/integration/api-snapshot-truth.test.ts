/** SNAPSHOTS sets how many at least (15 when left out); there are more until so many moments were seen. */
import { setTimeout as pause } from 'node:timers/promises'
import { expect } from 'chai'
import type { Side } from '#schemas/events/book-changed.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import { hashOf, type Moment } from '#test/fixtures/snapshot-market.ts'
import { openSnapshotScenario, type SnapshotScenario } from '#test/fixtures/snapshot-scenario.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'

const SNAPSHOTS = Number(process.env.SNAPSHOTS ?? 15)
const STARTS_OF_A_KEY = 150

interface Entry {
  provider: string
  item_id: number
}

describe('a snapshot under running changes', () => {
  const platform = useServers()
  let scenario: SnapshotScenario
  before('a market behind the service', async () => {
    scenario = await openSnapshotScenario(platform)
    await scenario.market.built()
  })
  after('end of the market', () => scenario.close())

  /** A partition's part of a body: provider → hash of its lines, in the order of the body. */
  function partsOf(lines: readonly string[]): Map<number, Map<string, string>> {
    const byPartition = Map.groupBy(lines, line => {
      const { item_id } = JSON.parse(line) as Entry
      return partitionOfItem(item_id)
    })
    return new Map(
      [...byPartition].map(([partition, some]) => {
        const byProvider = Map.groupBy(some, line => (JSON.parse(line) as Entry).provider)
        return [partition, new Map([...byProvider].map(([key, texts]) => [key, hashOf(texts.join('\n'))]))]
      }),
    )
  }

  const shows = (moment: Moment, side: Side, chosen: readonly string[], part: ReadonlyMap<string, string>): boolean =>
    chosen.every(key => moment.get(`${side}:${key}`) === part.get(key))

  async function move(signal: AbortSignal): Promise<void> {
    const { market } = scenario
    await Promise.all(
      market.partitions.map(async partition => {
        while (!signal.aborted) {
          await market.flush(partition, market.randomRecords(partition, market.random.integer(1, 12)))
          // The pace of the market: builds and readers need the same processor.
          await pause(market.random.integer(1, 60))
        }
      }),
    )
  }

  /** Waits until a partition's manifest is another one than now: its builder is at work, and so is the market. */
  async function newManifest(partition: number): Promise<void> {
    const before = (await scenario.market.manifest(partition))?.next
    const isNew = async (): Promise<boolean> => (await scenario.market.manifest(partition))?.next !== before
    await eventually(isNew, 'a new manifest')
  }

  it('is the table at one moment of each partition, and never goes back', async () => {
    const { market } = scenario
    const { random } = market
    const stop = new AbortController()
    const moving = move(stop.signal)
    const keys = { ask: '', bid: '' }
    const starts = { ask: 0, bid: 0 }
    const earliest = market.partitions.map(() => 0)
    const distinct = new Set<string>()
    try {
      for (let taken = 0; taken < SNAPSHOTS || distinct.size < SNAPSHOTS; taken++) {
        await newManifest(random.pick(market.partitions))
        const side: Side = random.chance(0.6) ? 'ask' : 'bid'
        if (starts[side]++ % STARTS_OF_A_KEY === 0) keys[side] = await platform.newKey('quant')
        const sold = market.providers.filter(one => side === 'ask' || one.features.has_buy_orders).map(({ key }) => key)
        const chosen = random.chance(0.7) ? sold : random.shuffle(sold).slice(0, random.integer(1, sold.length)).sort()
        const query = chosen === sold ? '' : `?${chosen.map(key => `providers=${key}`).join('&')}`
        const coding = random.pick(['gzip', 'identity'])
        const path = `/v1/${side === 'ask' ? 'prices' : 'bids'}${query}`
        const answer = await scenario.send(path, keys[side], { headers: { 'accept-encoding': coding } })
        expect(answer.status).to.equal(200)
        const lines = (await answer.text())
          .split('\n')
          .slice(0, -1)
          .map(line => JSON.stringify(JSON.parse(line)))
        expect(answer.headers.get('x-snapshot-total')).to.equal(String(lines.length))
        const parts = partsOf(lines)
        for (const partition of market.partitions) {
          const moments = market.moments[partition] ?? []
          const part = parts.get(partition) ?? new Map<string, string>()
          const at = moments.findIndex(
            (moment, i) => i >= (earliest[partition] ?? 0) && shows(moment, side, chosen, part),
          )
          expect(at, `snapshot ${taken} (${path}), partition ${partition}: no moment shows it`).to.be.at.least(0)
          earliest[partition] = at
          distinct.add(`${partition} ${at}`)
        }
      }
    } finally {
      stop.abort()
      await moving
    }
  })
})
