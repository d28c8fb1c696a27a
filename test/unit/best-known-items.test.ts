/** The demo had a thousand names drawn at random: of those that a newcomer types, nearly none had a price. */
import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { expect } from 'chai'
import { loadMarket } from '#infra/config/market.ts'

const TYPED_FIRST = [
  ...['AK-47 | Redline (Field-Tested)', 'AK-47 | Red Laminate (Factory New)', 'AK-47 | Asiimov (Field-Tested)'],
  ...['AK-47 | Vulcan (Field-Tested)', 'AK-47 | Fire Serpent (Field-Tested)', 'AK-47 | Case Hardened (Field-Tested)'],
  ...['AWP | Asiimov (Field-Tested)', 'AWP | Lightning Strike (Factory New)', 'AWP | Printstream (Field-Tested)'],
  ...['★ Karambit', '★ Karambit | Doppler (Factory New)', '★ Butterfly Knife', '★ M9 Bayonet', '★ Bayonet'],
  ...['★ M9 Bayonet | Marble Fade (Factory New)', '★ Flip Knife | Fade (Factory New)', '★ Kukri Knife'],
  ...['Kilowatt Case', 'Fracture Case', 'Snakebite Case', 'Dreams & Nightmares Case', 'Clutch Case', 'Fever Case'],
  ...['M4A1-S | Printstream (Field-Tested)', 'Desert Eagle | Printstream (Field-Tested)'],
]
const pricesOf = (file: string): Record<string, number> => JSON.parse(gunzipSync(readFileSync(file)).toString()).prices

describe('the items of the demo', () => {
  const demo = loadMarket('demo')
  const names = Object.keys(pricesOf(demo.base ?? ''))
  const base = pricesOf(loadMarket('full').base ?? '')

  it('are a thousand, and those that a newcomer types first are among them', () => {
    expect([names.length, demo.items]).to.deep.equal([1_000, undefined])
    expect(names).to.include.members(TYPED_FIRST)
  })

  it('are every AK-47, AWP and case of the newest recorded refresh, and every model of a knife', () => {
    const isKnown = (name: string) =>
      /^A(K-47|WP) \| | Case$|^★ (?!StatTrak)[^|]*(Knife|Bayonet|Karambit|Daggers)$/.test(name)
    const expected = Object.keys(base).filter(isKnown)
    expect(expected).to.have.length.within(500, 600)
    expect(names).to.include.members(expected)
  })

  it('have the prices of the refresh', () => {
    expect(pricesOf(demo.base ?? '')).to.deep.equal(Object.fromEntries(names.map(name => [name, base[name]])))
  })
})
