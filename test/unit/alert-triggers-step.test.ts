import { expect } from 'chai'
import fc from 'fast-check'
import type { AlertRuleChanged } from '#schemas/events/alert-rule-changed.ts'
import type { AlertTriggered } from '#schemas/events/alert-triggered.ts'
import type { BookChanged, Side } from '#schemas/events/book-changed.ts'
import { ALERT_KINDS, type AlertKind } from '#schemas/values/alert.ts'
import { parseRate, type Rate } from '#schemas/values/money.ts'
import {
  changeBook,
  considerRates,
  considerRule,
  movedCurrencies,
  openTriggerState,
  type TriggerState,
} from '#streams/alert-triggers/step.ts'
import { changed } from '#test/harness/published-records.ts'
import { fractionOf } from '#test/oracles/exact-amounts.ts'

const PROVIDERS = ['provider_b', 'provider_a', 'provider_c']
const CURRENCIES = ['USD', 'EUR', 'VEB']
const EPOCH = 1_700_000_000_000

type Action =
  | { do: 'price'; side: Side; item: number; provider: string; micro: number | null }
  | { do: 'rule'; alert: number; item: number; kind: AlertKind; value: string; currency: string; enabled: boolean }
  | { do: 'delete'; alert: number }
  | { do: 'rates'; rates: Record<string, string> }

const item = fc.integer({ min: 1, max: 3 })
const micro = fc.oneof(fc.integer({ min: 0, max: 60_000 }), fc.constantFrom(10_000, 20_000, 2_000_000))
const value = fc.oneof(
  fc.constantFrom('0.01', '0.02', '50', '0.00000001', '2', '0.010000', '99.99999999'),
  fc.integer({ min: 1, max: 8_000_000 }).map(scaled => (scaled / 1e8).toFixed(8)),
)
const rate = fc.constantFrom('0.5', '0.85', '1', '1.0000001', '3', '7.25', '1e-3')
const action: fc.Arbitrary<Action> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('price' as const),
      side: fc.constantFrom<Side>('ask', 'bid'),
      item,
      provider: fc.constantFrom(...PROVIDERS),
      micro: fc.option(micro, { freq: 5 }),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('rule' as const),
      alert: fc.integer({ min: 0, max: 40 }),
      item,
      kind: fc.constantFrom(...ALERT_KINDS),
      value,
      currency: fc.constantFrom(...CURRENCIES),
      enabled: fc.integer({ min: 0, max: 9 }).map(one => one > 0),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('delete' as const), alert: fc.integer({ min: 0, max: 40 }) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('rates' as const),
      rates: fc
        .record({ EUR: rate, VEB: rate }, { requiredKeys: [] })
        .map(rates => ({ USD: '1', ...rates }) as Record<string, string>),
    }),
  },
)

interface ModelRule {
  item: number
  kind: AlertKind
  value: string
  currency: string
  version: number
}

/** a/b compared with c/d, in whole numbers. */
const compare = (a: bigint, b: bigint, c: bigint, d: bigint): number => (a * d < c * b ? -1 : a * d > c * b ? 1 : 0)

/** The platform's state as a plain model: rows, rules, rates. */
class Model {
  rows = new Map<string, number>()
  rules = new Map<number, ModelRule>()
  /** Decimal texts. */
  rates = new Map<string, string>()
  versions = 0

  prices(side: Side, itemId: number): number[] {
    return [...this.rows].flatMap(([key, price]) => (key.startsWith(`${side}|${itemId}|`) ? [price] : []))
  }

  isHeld({ item: itemId, kind, value: text, currency }: ModelRule): boolean {
    const [asks, bids] = [this.prices('ask', itemId), this.prices('bid', itemId)]
    if (asks.length === 0) return false
    const ask = BigInt(Math.min(...asks))
    const { over: numerator, under: denominator } = fractionOf(text)
    if (kind === 'spread_exceeds') {
      if (bids.length === 0 || ask === 0n) return false
      return compare((ask - BigInt(Math.max(...bids))) * 100n, ask, numerator, denominator) > 0
    }
    const found = this.rates.get(currency)
    if (found === undefined) return false
    const { over, under } = fractionOf(found)
    const compared = compare(ask * over, 1_000_000n * under, numerator, denominator)
    return kind === 'price_below' ? compared < 0 : compared > 0
  }

  fire(): string[] {
    const held = [...this.rules].filter(([, rule]) => this.isHeld(rule))
    for (const [alert] of held) this.rules.delete(alert)
    return held.map(([alert, { version }]) => `${alert}@${version}`).sort()
  }
}

const ratesOf = (texts: Record<string, string>): Map<string, Rate> =>
  new Map(Object.entries(texts).map(([code, text]) => [code, parseRate(text) as Rate]))

function changeOf({ side, provider, item, micro }: Action & { do: 'price' }): BookChanged {
  const change = micro === null ? 'removed' : 'updated'
  const about = { side, provider, item_id: item, change, price: micro, price_micro_usd: micro } as const
  return changed({ ...about, seen_at: EPOCH, refresh_id: null })
}

function ruleOf(one: Action & { do: 'rule' }, version: number): AlertRuleChanged {
  const isSpread = one.kind === 'spread_exceeds'
  return {
    alert_id: String(one.alert),
    account_id: 'a',
    item_id: one.item,
    kind: one.kind,
    threshold_value: one.value,
    threshold_currency: isSpread ? null : one.currency,
    is_enabled: one.enabled,
    version,
    changed_at: EPOCH,
  }
}

function take(state: TriggerState, one: Action, version: number): readonly AlertTriggered[] {
  if (one.do === 'price') return changeBook(state, changeOf(one))
  if (one.do === 'delete') {
    state.rules.forget(String(one.alert))
    return []
  }
  if (one.do === 'rule') {
    const rule = state.rules.note(ruleOf(one, version))
    const trigger = rule && considerRule(state, rule)
    return trigger ? [trigger] : []
  }
  const rates = ratesOf(one.rates)
  const moved = movedCurrencies(state.rates, rates)
  state.rates = rates
  return state.rules.itemsWith(moved).flatMap(itemId => [...considerRates(state, itemId, moved, EPOCH)])
}

function model(plain: Model, one: Action): void {
  if (one.do === 'price') {
    const key = `${one.side}|${one.item}|${one.provider}`
    if (one.micro === null) plain.rows.delete(key)
    else plain.rows.set(key, one.micro)
  } else if (one.do === 'delete') plain.rules.delete(one.alert)
  else if (one.do === 'rates') plain.rates = new Map(Object.entries(one.rates))
  else {
    plain.rules.delete(one.alert)
    const { alert, enabled, ...rule } = one
    if (enabled) plain.rules.set(alert, { ...rule, version: plain.versions })
  }
}

describe('alert triggers', () => {
  const start = () => openTriggerState(ratesOf({ USD: '1', EUR: '0.85' }))

  /** Compares the step with the model over many logs, those of a seed or random ones; answers how many rules fired. */
  function compared(parameters: fc.Parameters<[Action[]]>): number {
    let fired = 0
    fc.assert(
      fc.property(fc.array(action, { minLength: 1, maxLength: 120, size: 'max' }), actions => {
        const state = start()
        const plain = new Model()
        plain.rates = new Map(Object.entries({ USD: '1', EUR: '0.85' }))
        for (const one of actions) {
          plain.versions += 1
          const triggers = take(state, one, plain.versions)
          model(plain, one)
          const triggered = triggers.map(({ alert_id, version }) => `${alert_id}@${version}`).sort()
          expect(triggered).to.deep.equal(plain.fire())
          expect(state.rules.size()).to.equal(plain.rules.size)
          fired += triggered.length
        }
      }),
      parameters,
    )
    return fired
  }

  it('fire the rules whose condition holds, each once, as evaluating every rule after every change does', () => {
    expect(compared({ seed: 1, numRuns: 200 }), 'rules that fired').to.be.above(500)
    compared({ numRuns: 200 })
  })

  it("name the best prices, their providers and the value in the threshold's currency", () => {
    const state = start()
    const price = (side: Side, provider: string, micro: number) =>
      take(state, { do: 'price', side, item: 1, provider, micro }, 0)
    const rule = (kind: AlertKind, value: string, currency = 'USD') =>
      take(state, { do: 'rule', alert: 7, item: 1, kind, value, currency, enabled: true }, 3)
    price('ask', 'provider_b', 10_000_000)
    price('ask', 'provider_a', 10_000_000)
    price('bid', 'provider_c', 7_500_000)
    const common = {
      alert_id: '7',
      version: 3,
      item_id: 1,
      best_ask_micro_usd: 10_000_000,
      best_bid_micro_usd: 7_500_000,
      ask_provider: 'provider_a',
      bid_provider: 'provider_c',
      cause: 'rule',
      caused_at: EPOCH,
    }
    expect(rule('price_below', '8.51', 'EUR')).to.deep.equal([
      { ...common, kind: 'price_below', triggered_value: '8.50', triggered_currency: 'EUR' },
    ])
    state.rules.forget('7')
    expect(rule('spread_exceeds', '24.9999')).to.deep.equal([
      { ...common, kind: 'spread_exceeds', triggered_value: '25.0000', triggered_currency: null },
    ])
  })

  it('take the highest version of a rule, whatever is repeated after it', () => {
    const state = start()
    const rule = (version: number, text: string) =>
      take(
        state,
        { do: 'rule', alert: 1, item: 1, kind: 'price_below', value: text, currency: 'USD', enabled: true },
        version,
      )
    rule(2, '5')
    rule(1, '50')
    const fired = take(state, { do: 'price', side: 'ask', item: 1, provider: 'provider_a', micro: 10_000_000 }, 0)
    expect(fired).to.deep.equal([])
    expect(
      take(state, { do: 'price', side: 'ask', item: 1, provider: 'provider_a', micro: 4_000_000 }, 0),
    ).to.have.length(1)
  })
})
