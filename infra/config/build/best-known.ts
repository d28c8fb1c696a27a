/**
 * The names of a market that a newcomer types first.
 *
 * Pure. Every AK-47 and AWP without counter or souvenir mark, and every case; of each knife and each other weapon those with the most
 * listings, an unpainted knife first; then whatever has the most listings. A recorded refresh holds prices and no counts, so listings
 * are those of the supply estimates; a name that was never counted comes after those that were, the cheaper first, as more of what is
 * cheap is listed. Invariant: the order of `prices` decides nothing.
 */
import type { CatalogItem } from '#schemas/values/catalog-item.ts'

/** Models of which every finish is known. */
const KNOWN_MODELS = new Set(['AK-47', 'AWP'])
const CASE = / Case$/
const FINISHES_OF_KNIFE = 10
const FINISHES_OF_WEAPON = 5

/** Chooses `count` names; `units` are estimates of supply by item id. */
export function bestKnownNames(
  prices: Readonly<Record<string, number>>,
  { catalog, units, count }: { catalog: readonly CatalogItem[]; units: ReadonlyMap<number, number>; count: number },
): string[] {
  const items = Map.groupBy(catalog, item => item.market_hash_name)
  const ranked = Object.entries(prices)
    .map(([name, price]) => {
      const listings = (items.get(name) ?? []).reduce((sum, { item_id }) => sum + (units.get(item_id) ?? 0), 0)
      return { name, price, listings, item: items.get(name)?.[0] }
    })
    .sort((a, b) => b.listings - a.listings || a.price - b.price || (a.name < b.name ? -1 : 1))
  const weapons = ranked.filter(({ item }) => item?.item_type === 'Weapon' && !item.is_stattrak && !item.is_souvenir)
  const models = [...Map.groupBy(weapons, ({ item }) => item?.base_name)]
  const first = [
    ...models.flatMap(([model, own]) => (KNOWN_MODELS.has(model ?? '') ? own : [])),
    ...ranked.filter(({ name }) => CASE.test(name)),
    ...models.flatMap(([, own]) => {
      const unpaintedFirst = own.toSorted((a, b) => Number(isPainted(a)) - Number(isPainted(b)))
      const isKnife = own[0]?.item?.weapon_type === 'Knife'
      return unpaintedFirst.slice(0, isKnife ? FINISHES_OF_KNIFE : FINISHES_OF_WEAPON)
    }),
  ]
  return [...new Set([...first, ...ranked].map(({ name }) => name))].slice(0, count)
}

const isPainted = ({ item }: { item: CatalogItem | undefined }): boolean => item?.skin_name !== null
