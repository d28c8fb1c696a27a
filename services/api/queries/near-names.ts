/**
 * The catalog's name that is nearest to one that no item has.
 *
 * Nearness is Dice's coefficient over the distinct trigrams of both names, in lower case, without accents, with
 * everything that is no letter or digit as one space: https://en.wikipedia.org/wiki/Dice-S%C3%B8rensen_coefficient.
 * The names of each trigram are listed once for each version of the catalog, so that a search counts in one pass over those of its
 * trigrams. The lists of a new version are made in turns of the event loop, and until then the names are those of the version before.
 */
import type { CatalogReader } from '#infra/runtime/role.ts'
import { atOnce, inTurns, type PausingWork } from '#infra/runtime/turns.ts'

/** A name that is less alike than this is another name, not a misspelling of this one. */
const NEAR = 0.55

interface NameIndex {
  names: readonly string[]
  /** By index of `names`: how many trigrams it has. */
  sizes: readonly number[]
  /** Trigram → indexes of `names`. */
  holders: ReadonlyMap<string, readonly number[]>
  longest: number
}

/** The index of a catalog, and the version that the newest one is built of. */
const indexes = new WeakMap<object, { version: string; index: NameIndex }>()

type Names = Pick<CatalogReader, 'items' | 'version' | 'idsOfName'>

/** The nearest name of the catalog; undefined when none is near, or the name is one of the catalog. */
export function nearestName(catalog: Names, name: string): string | undefined {
  if (catalog.idsOfName(name).length > 0) return undefined
  const index = indexNames(catalog)
  // A text over twice as long as any name is near none: this bounds the cost of a search.
  return name.length > 2 * index.longest ? undefined : search(index, trigramsOf(name))
}

/** The index of a catalog; the first is built at once, so that no request waits for it. */
export function indexNames(catalog: Omit<Names, 'idsOfName'>): NameIndex {
  const version = catalog.version()
  const newest = indexes.get(catalog)
  if (newest?.version === version) return newest.index
  const building = buildIndex([...new Set(catalog.items().map(item => item.market_hash_name))])
  const entry = { version, index: newest?.index ?? atOnce(building) }
  indexes.set(catalog, entry)
  if (newest) void inTurns(building).then(index => Object.assign(entry, { index }))
  return entry.index
}

function search({ names, sizes, holders }: NameIndex, trigrams: ReadonlySet<string>): string | undefined {
  const common = new Uint16Array(names.length)
  for (const trigram of trigrams) {
    for (const at of holders.get(trigram) ?? []) common[at] = (common[at] as number) + 1
  }
  let best: string | undefined
  let likeness = NEAR
  for (const [at, name] of names.entries()) {
    const dice = (2 * (common[at] as number)) / (trigrams.size + (sizes[at] as number))
    if (dice <= likeness) continue
    likeness = dice
    best = name
  }
  return best
}

const NAMES_AT_ONCE = 500

function* buildIndex(names: readonly string[]): PausingWork<NameIndex> {
  const holders = new Map<string, number[]>()
  const sizes: number[] = []
  for (const [at, name] of names.entries()) {
    if (at % NAMES_AT_ONCE === 0) yield
    const trigrams = trigramsOf(name)
    sizes.push(trigrams.size)
    for (const trigram of trigrams) {
      const list = holders.get(trigram)
      if (list) list.push(at)
      else holders.set(trigram, [at])
    }
  }
  return { names, sizes, holders, longest: names.reduce((most, { length }) => Math.max(most, length), 0) }
}

/** The distinct trigrams of a name, a space before and after it included. */
function trigramsOf(name: string): Set<string> {
  const plain = name.normalize('NFD').replaceAll(/\p{M}/gu, '').toLowerCase()
  const spaced = ` ${plain.replaceAll(/[^\p{L}\p{N}]+/gu, ' ').trim()} `
  return new Set(Array.from({ length: spaced.length - 2 }, (_, at) => spaced.slice(at, at + 3)))
}
