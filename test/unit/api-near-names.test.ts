/** The name that a 404 names, compared with a plain comparison with every name of the catalog. */
import { expect } from 'chai'
import { loadCatalog } from '#infra/config/catalog.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { nearestName } from '#services/api/queries/near-names.ts'
import { eventually } from '#test/harness/eventually.ts'
import { seededRandom } from '#test/harness/seeded-random.ts'

const items = loadCatalog()
const names = [...new Set(items.map(item => item.market_hash_name))]
const known = new Set(names)
const catalog = { items: () => items, version: () => 'one', idsOfName: (name: string) => (known.has(name) ? [1] : []) }

/** Pieces of three characters, as sets of text. */
function piecesOf(name: string): Set<string> {
  const plain = ` ${name
    .normalize('NFD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, ' ')
    .trim()} `
  return new Set(Array.from({ length: plain.length - 2 }, (_, at) => plain.slice(at, at + 3)))
}

const pieces = names.map(piecesOf)

/** The greatest likeness of a text to any name, and that to one name. */
function likeness(text: string, name: string): { best: number; own: number } {
  const wanted = piecesOf(text)
  const dice = (other: Set<string>) =>
    (2 * [...wanted].filter(piece => other.has(piece)).length) / (wanted.size + other.size)
  return { best: Math.max(...pieces.map(dice)), own: dice(piecesOf(name)) }
}

describe('the nearest name', () => {
  const random = seededRandom('near names')

  const misses: [miss: string, name: string | undefined][] = [
    ['AK-47 | Redlin (Field-Tested)', 'AK-47 | Redline (Field-Tested)'],
    ['ak-47 | redline (field-tested)', 'AK-47 | Redline (Field-Tested)'],
    ['AK-47 Redline (Field Tested)', 'AK-47 | Redline (Field-Tested)'],
    ['Karambit | Doppler (Factory New)', '★ Karambit | Doppler (Factory New)'],
    ['StatTrak AWP | Asiimov (Field-Tested)', 'StatTrak™ AWP | Asiimov (Field-Tested)'],
    ['Nova | Wurst Holle (Field-Tested)', 'Nova | Wurst Hölle (Field-Tested)'],
    ['Fever', 'Fever Case'],
    ['Sticker | Titan (Hollow) | Katowice 2014', 'Sticker | Titan (Holo) | Katowice 2014'],
    ['AK-47 | Redline (Field-Tested)', undefined],
    ['AK-48 | Unheard-of', undefined],
    ['no such thing', undefined],
    ['', undefined],
    ['\u{1f600}', undefined],
    ['x'.repeat(5_000), undefined],
  ]
  for (const [miss, name] of misses) {
    it(`of ${JSON.stringify(miss.slice(0, 50))} is ${name ?? 'none'}`, () => {
      expect(nearestName(catalog, miss)).to.equal(name)
    })
  }

  it('is none that another name is nearer than, for names with a letter lost, doubled or swapped', () => {
    for (let turn = 0; turn < 12; turn++) {
      const name = random.pick(names)
      const at = random.integer(0, name.length - 2)
      const [one = '', two = ''] = [name[at], name[at + 1]]
      const instead = random.pick([two, one + one + two, two + one])
      const miss = name.slice(0, at) + instead + name.slice(at + 2)
      if (known.has(miss)) continue
      const found = nearestName(catalog, miss) ?? expect.fail(`${miss}: nothing is near`)
      const { best, own } = likeness(miss, found)
      expect(own, `${miss}: ${found}`).to.be.closeTo(best, 1e-9)
    }
  })

  it('is of the version before until the new one is indexed, which held all other requests for 0.2 s', async () => {
    let shown = items
    const changing = { items: () => shown, version: () => String(shown.length), idsOfName: () => [] }
    expect(nearestName(changing, 'Fever Cas')).to.equal('Fever Case')
    shown = [{ ...(items[0] as CatalogItem), market_hash_name: 'Fever Capsule' }]
    expect(nearestName(changing, 'Fever Cas')).to.equal('Fever Case')
    await eventually(() => nearestName(changing, 'Fever Cas') === 'Fever Capsule', 'the new version to be indexed')
  })
})
