/** The name that a 404 suggests. */
import { expect } from 'chai'
import { loadCatalog } from '#infra/config/catalog.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { nearestName } from '#services/api/queries/near-names.ts'
import { eventually } from '#test/harness/eventually.ts'

const items = loadCatalog()
const names = [...new Set(items.map(item => item.market_hash_name))]
const known = new Set(names)
const catalog = { items: () => items, version: () => 'one', idsOfName: (name: string) => (known.has(name) ? [1] : []) }

describe('the nearest name', () => {
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

  it('is of the version before until the new one is indexed, which held all other requests for 0.2 s', async () => {
    let shown = items
    const changing = { items: () => shown, version: () => String(shown.length), idsOfName: () => [] }
    expect(nearestName(changing, 'Fever Cas')).to.equal('Fever Case')
    shown = [{ ...(items[0] as CatalogItem), market_hash_name: 'Fever Capsule' }]
    expect(nearestName(changing, 'Fever Cas')).to.equal('Fever Case')
    await eventually(() => nearestName(changing, 'Fever Cas') === 'Fever Capsule', 'the new version to be indexed')
  })
})
