/** To publish 39,560 items takes five seconds of processor time, and to read them half a second in each role that starts. */
import { loadCatalog } from '#infra/config/catalog.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'

const FIRST = 150
/** Of the others, so that each category has some. */
const EVERY = 300
/** Items that fixtures name, one of them with its phases. */
const NAMED = /^(AK-47 \| Redline \(|AWP \| Asiimov \(|★ Karambit \| Doppler \(Factory New\))/

/** Made once in a worker. */
let catalog: CatalogItem[] | undefined

/** The items that fixtures name, one phase of every finish, the first of the built catalog, and some of all others. */
export function smallCatalog(): CatalogItem[] {
  catalog ??= loadCatalog().filter(
    ({ market_hash_name: name, phase }, at) => at < FIRST || at % EVERY === 0 || phase === 'Ruby' || NAMED.test(name),
  )
  return catalog
}
