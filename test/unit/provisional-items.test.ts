import { expect } from 'chai'
import fc from 'fast-check'
import { loadCatalog } from '#infra/config/catalog.ts'
import type { NameUnresolved } from '#schemas/events/dead-lettered.ts'
import { DAY_MS } from '#schemas/values/instant.ts'
import { openItemNames } from '#schemas/values/item-name.ts'
import {
  FIRST_PROVISIONAL_ID,
  noNames,
  openDrafting,
  restore,
  type SightedNames,
  step,
} from '#streams/provisional-items/step.ts'

const NAME = 'AK-47 | New Finish (Field-Tested)'

const listed = (provider: string, refresh: number, more: Partial<NameUnresolved> = {}): NameUnresolved => ({
  group: 'book',
  topic: 'market.quotes',
  partition: 0,
  offset: 0,
  value: Buffer.alloc(0),
  provider,
  market_hash_name: NAME,
  phase: null,
  observed_at: refresh,
  ...more,
})

function itemsOf(records: readonly NameUnresolved[], state: SightedNames = noNames(), known: readonly string[] = []) {
  const idOf = (name: string) => (known.includes(name) ? 1 : undefined)
  return records.flatMap(record => step(state, record, record.observed_at, idOf).item ?? [])
}

const twice = (...providers: string[]) => providers.flatMap(provider => [listed(provider, 1), listed(provider, 2)])

describe('provisional items', () => {
  it('are names that two providers list in two refreshes each', () => {
    expect(itemsOf(twice('a', 'b'))).to.deep.equal([
      { item_id: FIRST_PROVISIONAL_ID, market_hash_name: NAME, phase: null },
    ])
  })

  it('are none that one provider lists, or a second one once, that the catalog knows, that sales name, and none twice', () => {
    const often = [1, 2, 3, 4, 5].map(refresh => listed('a', refresh))
    expect(itemsOf([...often, listed('b', 1), listed('b', 1)])).to.deep.equal([])
    expect(itemsOf(twice('a', 'b'), noNames(), [NAME])).to.deep.equal([])
    expect(itemsOf(twice('a', 'b').map(record => ({ ...record, group: 'sales' })))).to.deep.equal([])
    expect(itemsOf([...twice('a', 'b'), ...twice('c', 'd')])).to.have.length(1)
  })

  it('are one for each phase, and none of a phase that does not exist', () => {
    const phases = ['Ruby', null, 'Rubin'].flatMap(phase => twice('a', 'b').map(record => ({ ...record, phase })))
    expect(itemsOf(phases).map(({ item_id, phase }) => [item_id, phase])).to.deep.equal([
      [FIRST_PROVISIONAL_ID, 'Ruby'],
      [FIRST_PROVISIONAL_ID + 1, null],
    ])
  })

  it('are none with control characters, without a character, or too long', () => {
    const unusual = ['a\u0000b', 'a\u0007', '\ue000', '', ' \u00a0', '\ufeff', 'x'.repeat(129)]
    const usual = ['Café', 'x'.repeat(128), '★ Nomad', "Sticker | 'jL' (Foil)", '龍王']
    const names = [...unusual, ...usual]
    const records = names.flatMap(market_hash_name => twice('a', 'b').map(record => ({ ...record, market_hash_name })))
    expect(itemsOf(records).map(item => item.market_hash_name)).to.deep.equal(usual)
  })

  it('are one of all spellings of a name, in its plain form, and none of an item that the catalog has', () => {
    const spellings = [' Café  | New', 'Cafe\u0301 |\u00a0New', 'Café |\u200b New\ufeff', 'Café | New']
    const records = spellings.map((market_hash_name, i) => listed(i % 2 === 0 ? 'a' : 'b', i, { market_hash_name }))
    expect(itemsOf(records)).to.deep.equal([
      { item_id: FIRST_PROVISIONAL_ID, market_hash_name: 'Café | New', phase: null },
    ])
    const { idOf } = openItemNames([{ item_id: 1, market_hash_name: 'Café  | New', phase: null }])
    expect(records.flatMap(record => step(noNames(), record, 1, idOf).stored)).to.deep.equal([])
  })

  it('forget a name that nobody has listed for a week, and none that is an item', () => {
    const state = noNames()
    itemsOf([listed('a', 1), listed('a', 2)], state)
    const later = step(
      state,
      listed('b', 7 * DAY_MS + 2, { market_hash_name: 'Other' }),
      7 * DAY_MS + 2,
      () => undefined,
    )
    expect(later.stored.map(([key, value]) => [key, value === null])).to.deep.equal([
      [`|${NAME}`, true],
      ['|Other', false],
    ])
    expect(itemsOf(twice('b'), state)).to.deep.equal([])
    expect(itemsOf(twice('c'), state)).to.have.length(1)
    expect(itemsOf([listed('d', 30 * DAY_MS), ...twice('e', 'f')], state)).to.deep.equal([])
  })

  it('count a provider for 5,000 names at a time', () => {
    const state = noNames()
    const name = (index: number) => ({ market_hash_name: `Sticker | ${index}` })
    itemsOf(
      Array.from({ length: 5_001 }, (_, index) => listed('a', 1, name(index))),
      state,
    )
    const pair = (index: number) => twice('a', 'b').map(record => ({ ...record, ...name(index) }))
    expect(itemsOf([...pair(5_000), ...pair(0)], state).map(item => item.market_hash_name)).to.deep.equal([
      'Sticker | 0',
    ])
    expect(itemsOf(pair(5_000), state), 'once there is room').to.have.length(1)
  })

  it('go on after a restart at any record as if there had been none', () => {
    const record = fc.record({
      provider: fc.constantFrom('a', 'b', 'c'),
      market_hash_name: fc.constantFrom('One', 'Two', 'Three', 'Four'),
      phase: fc.constantFrom(null, 'Ruby', 'Phase 1'),
      observed_at: fc.constantFrom(1, 2, 3),
    })
    const log = fc.array(record, { maxLength: 60 })
    fc.assert(
      fc.property(log, fc.nat(60), (records, cut) => {
        const whole = records.map((one, index) => listed(one.provider, one.observed_at + index * DAY_MS, one))
        const changelog = new Map<string, Parameters<typeof restore>[2]>()
        const before = noNames()
        const fold = (state: SightedNames, some: readonly NameUnresolved[], at: number) =>
          some.flatMap((one, index) => {
            const { stored, item } = step(state, one, (at + index) * DAY_MS, () => undefined)
            for (const [key, value] of stored) {
              changelog.delete(key)
              changelog.set(key, value)
            }
            return item ?? []
          })
        const first = fold(before, whole.slice(0, cut), 0)
        const after = noNames()
        for (const [key, value] of changelog) restore(after, key, value)
        const rest = fold(after, whole.slice(cut), cut)
        expect([...first, ...rest]).to.deep.equal(fold(noNames(), whole, 0))
      }),
    )
  })

  it('say of a name what the catalog says of it, or nothing', () => {
    const catalog = loadCatalog()
    const isLeftOut = (index: number): boolean => index % 10 === 0
    const draft = openDrafting(catalog.filter((_, index) => !isLeftOut(index)))
    const leftOut = catalog.filter((_, index) => isLeftOut(index))
    for (const field of ['base_name', 'skin_name', 'wear_name', 'item_type', 'item_subtype', 'weapon_type'] as const) {
      const pairs = leftOut.map(item => [draft(item.market_hash_name)[field], item[field], item.market_hash_name])
      expect(pairs.filter(([own, full]) => own !== null && own !== full)).to.deep.equal([], field)
      const known = pairs.filter(([, full]) => full !== null)
      expect(known.filter(([own]) => own !== null).length / known.length, field).to.be.greaterThan(0.4)
    }
    for (const flag of ['is_stattrak', 'is_souvenir'] as const)
      expect(leftOut.filter(item => draft(item.market_hash_name)[flag] !== item[flag])).to.deep.equal([], flag)
  })
})
