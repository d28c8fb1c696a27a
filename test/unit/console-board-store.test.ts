import { expect } from 'chai'
import { type AskChange, type BoardQuery, openBoardStore } from '#services/console/src/market/board-store.ts'
import { seededRandom } from '#test/harness/seeded-random.ts'

const PROVIDERS = ['provider_01', 'provider_02', 'provider_03']
const ALL: BoardQuery = { text: '', wear: '', phase: '', kind: '', sort: 'name', isDescending: false }
const ITEMS: [id: number, name: string, phase: string | null, kind: string][] = [
  [1, 'AK-47 | Redline (Field-Tested)', null, 'Rifles'],
  [2, 'StatTrak™ AK-47 | Redline (Minimal Wear)', null, 'Rifles'],
  [3, '★ Karambit | Doppler (Factory New)', 'Phase 2', 'Knives'],
  [4, '★ Karambit | Doppler (Factory New)', 'Ruby', 'Knives'],
  [5, 'Souvenir Café Sticker', null, 'Stickers'],
]

const ask = (itemId: number, provider: string, price: number | null, quantity = 1): AskChange => ({
  itemId,
  name: `item ${itemId}`,
  phase: null,
  provider,
  price,
  quantity,
  seenAt: itemId * 1_000,
})

function filledStore() {
  const store = openBoardStore(PROVIDERS)
  for (const item of ITEMS) store.addItem(...item)
  return store
}

describe('the board store', () => {
  const found = (query: Partial<BoardQuery>): number[] => {
    const store = filledStore()
    return store.order({ ...ALL, ...query }).map(row => store.rowAt(row).id)
  }

  it('finds items by words of name, class, wear and phase, in any order and as traders shorten them', () => {
    expect(found({ text: 'redline ak-47' })).to.deep.equal([1, 2])
    expect(found({ text: 'redline ft' })).to.deep.equal([1])
    expect(found({ text: 'st redline MW' })).to.deep.equal([2])
    expect(found({ text: 'knives p2' })).to.deep.equal([3])
    expect(found({ text: 'karambit ruby' })).to.deep.equal([4])
    expect(found({ text: 'cafe' })).to.deep.equal([5])
    expect(found({ text: 'redline glock' })).to.deep.equal([])
  })

  it('filters by class, wear and phase', () => {
    expect(found({ kind: 'Knives' })).to.deep.equal([3, 4])
    expect(found({ wear: 'Minimal Wear' })).to.deep.equal([2])
    expect(found({ phase: 'Ruby', kind: 'Knives' })).to.deep.equal([4])
  })

  it('sorts by a value with what has none last, whichever way', () => {
    const store = filledStore()
    store.setAsk(ask(1, 'provider_01', 500))
    store.setAsk(ask(3, 'provider_01', 90_000))
    store.setAsk(ask(4, 'provider_02', 100))
    const ids = (isDescending: boolean) =>
      store.order({ ...ALL, sort: 'ask', isDescending }).map(row => store.rowAt(row).id)
    expect(ids(false)).to.deep.equal([4, 1, 3, 2, 5])
    expect(ids(true)).to.deep.equal([3, 1, 4, 2, 5])
  })

  it('has the lowest ask of all providers after any changes, and counts them', () => {
    const random = seededRandom('asks of the board store')
    const store = openBoardStore(PROVIDERS)
    const expected = new Map<number, Map<string, number>>()
    for (let change = 0; change < 5_000; change++) {
      const itemId = random.integer(1, 2_000)
      const provider = random.pick(PROVIDERS)
      const price = random.chance(0.2) ? null : random.integer(1, 1_000)
      store.setAsk(ask(itemId, provider, price))
      const ofItem = expected.get(itemId) ?? new Map<string, number>()
      expected.set(itemId, ofItem)
      if (price === null) ofItem.delete(provider)
      else ofItem.set(provider, price)
    }
    const rows = store.order({ ...ALL, sort: 'ask' }).map(row => store.rowAt(row))
    expect(rows).to.have.length(expected.size)
    for (const { id, ask: lowest, providers } of rows) {
      const prices = [...(expected.get(id)?.values() ?? [])]
      expect([lowest, providers]).to.deep.equal([prices.length > 0 ? Math.min(...prices) : null, prices.length])
      expect(store.asksOf(id).map(({ price }) => price)).to.deep.equal(prices.toSorted((a, b) => a - b))
    }
  })

  it('shows the state before until one that begins again is complete, and then nothing of it', () => {
    const store = filledStore()
    store.setAsk(ask(1, 'provider_01', 500))
    store.setAsk(ask(2, 'provider_01', 700))
    store.beginState()
    store.setAsk(ask(1, 'provider_02', 450))
    expect(store.asksOf(1).map(({ price }) => price)).to.deep.equal([500])
    store.endState()
    expect([1, 2].map(id => store.asksOf(id).map(({ price }) => price))).to.deep.equal([[450], []])
  })

  it('counts a change of the best ask alone as a tick, and says which way it went', () => {
    const store = filledStore()
    const row = () => store.rowAt(store.order(ALL).find(one => store.rowAt(one).id === 1) ?? 0)
    store.setAsk(ask(1, 'provider_01', 500))
    store.setAsk(ask(1, 'provider_02', 600))
    expect(row().ticks).to.equal(0)
    store.setAsk(ask(1, 'provider_01', 450))
    expect([row().ticks, row().rose]).to.deep.equal([1, false])
    store.setAsk(ask(1, 'provider_01', null))
    expect([row().ticks, row().rose, row().ask]).to.deep.equal([2, true, 600])
  })

  it('shows the figures of an item whose asks it does not have, and no ask of a provider that it does not know', () => {
    const store = filledStore()
    store.setFigures(1, 'AK-47 | Redline (Field-Tested)', null, {
      ask: 1_234,
      bid: 1_200,
      change: -2.5,
      volume: 12,
      liquidity: 88,
      providers: 7,
    })
    store.setAsk(ask(1, 'provider_99', 1))
    const { ask: shown, bid, change, providers, askProvider } = store.rowAt(store.order(ALL)[0] ?? 0)
    expect([shown, bid, change, providers, askProvider]).to.deep.equal([1_234, 1_200, -2.5, 7, null])
  })
})
