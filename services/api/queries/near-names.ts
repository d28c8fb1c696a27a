/**
 * The catalog's name that is nearest to one that no item has.
 *
 * Nearness is Dice's coefficient over the distinct trigrams of both names, in lower case, without accents, with
 * everything that is no letter or digit as one space: https://en.wikipedia.org/wiki/Dice-S%C3%B8rensen_coefficient.
 * The index is direct-addressed: a trigram of a 64-letter alphabet is a number below 2^18, and the names that hold it are
 * adjacent in one array. A search counts in one pass over the names of its trigrams. With 39,560 items the index takes
 * 8 MB and 0.2 s of CPU to build, a search 0.2 ms (38,831 names; at most 2 ms, for the longest name that is searched). That of a
 * new version is built in turns of the event loop, and until then the names are those of the version before.
 */
import type { CatalogReader } from '#infra/runtime/role.ts'
import { atOnce, inTurns, type PausingWork } from '#infra/runtime/turns.ts'

/** A name that is less alike than this is another name, not a misspelling of this one. */
const NEAR = 0.55

const ALPHABET_BITS = 6
const TRIGRAMS = 2 ** (3 * ALPHABET_BITS)
const FOREIGN_FIRST = 37
const FOREIGN = 2 ** ALPHABET_BITS - FOREIGN_FIRST

interface NameIndex {
  names: readonly string[]
  /** Trigram → where its names begin in `holders`; one more at the end. */
  starts: Uint32Array
  /** Indexes of `names`. */
  holders: Uint32Array
  /** By index: the name's distinct trigrams. */
  sizes: Uint16Array
  /** By index: what a search counts; zero between searches. */
  common: Uint16Array
  longest: number
  trigramsOf: (name: string) => readonly number[]
}

/** The index of a catalog, and the version that the newest one is built of. */
const indexes = new WeakMap<object, { version: string; index: NameIndex }>()

type Names = Pick<CatalogReader, 'items' | 'version' | 'idsOfName'>

/** The nearest name of the catalog; undefined when none is near, or the name is one of the catalog. */
export function nearestName(catalog: Names, name: string): string | undefined {
  if (catalog.idsOfName(name).length > 0) return undefined
  const index = indexNames(catalog)
  // A text over twice as long as any name is near none: this bounds the cost of a search.
  return name.length > 2 * index.longest ? undefined : search(index, name)
}

/** The index of a catalog; the first is built at once, so that no request waits for it. */
export function indexNames(catalog: Omit<Names, 'idsOfName'>): NameIndex {
  const version = catalog.version()
  const known = indexes.get(catalog)
  if (known?.version === version) return known.index
  const building = buildIndex([...new Set(catalog.items().map(item => item.market_hash_name))])
  const entry = { version, index: known?.index ?? atOnce(building) }
  indexes.set(catalog, entry)
  if (known) void inTurns(building).then(index => Object.assign(entry, { index }))
  return entry.index
}

function search(index: NameIndex, name: string): string | undefined {
  const { names, starts, holders, sizes, common } = index
  const wanted = index.trigramsOf(name)
  for (const trigram of wanted) {
    const end = starts[trigram + 1] as number
    for (let at = starts[trigram] as number; at < end; at++) {
      const nameIndex = holders[at] as number
      common[nameIndex] = (common[nameIndex] as number) + 1
    }
  }
  let best: number | undefined
  let likeness = NEAR
  for (let nameIndex = 0; nameIndex < names.length; nameIndex++) {
    const dice = (2 * (common[nameIndex] as number)) / (wanted.length + (sizes[nameIndex] as number))
    if (dice <= likeness) continue
    likeness = dice
    best = nameIndex
  }
  common.fill(0)
  return best === undefined ? undefined : names[best]
}

/** Names between two pauses. */
const NAMES_AT_ONCE = 500

/** Counts the names of each trigram, then writes each name into the range of its trigrams: no map, no sorting. */
function* buildIndex(names: readonly string[]): PausingWork<NameIndex> {
  const trigramsOf = openTrigrams()
  const starts = new Uint32Array(TRIGRAMS + 1)
  const sizes = new Uint16Array(names.length)
  for (const [nameIndex, name] of names.entries()) {
    if (nameIndex % NAMES_AT_ONCE === 0) yield
    const own = trigramsOf(name)
    sizes[nameIndex] = own.length
    for (const trigram of own) starts[trigram + 1] = (starts[trigram + 1] as number) + 1
  }
  for (let trigram = 0; trigram < TRIGRAMS; trigram++) {
    starts[trigram + 1] = (starts[trigram + 1] as number) + (starts[trigram] as number)
  }
  const next = starts.slice()
  const holders = new Uint32Array(starts[TRIGRAMS] as number)
  for (const [nameIndex, name] of names.entries()) {
    if (nameIndex % NAMES_AT_ONCE === 0) yield
    for (const trigram of trigramsOf(name)) {
      const at = next[trigram] as number
      holders[at] = nameIndex
      next[trigram] = at + 1
    }
  }
  const longest = names.reduce((most, name) => Math.max(most, name.length), 0)
  return { names, starts, holders, sizes, common: new Uint16Array(names.length), longest, trigramsOf }
}

/** Makes a reader of a name's distinct trigrams, a space before and after it included. */
function openTrigrams(): (name: string) => readonly number[] {
  /** Trigram → the last name that had it. */
  const seenIn = new Uint32Array(TRIGRAMS)
  let turn = 0
  return name => {
    turn += 1
    const found: number[] = []
    let trigram = 0
    let letters = 1
    const take = (letter: number): void => {
      if (letter === 0 && trigram % 2 ** ALPHABET_BITS === 0) return
      trigram = ((trigram << ALPHABET_BITS) | letter) % TRIGRAMS
      letters += 1
      if (letters < 3 || seenIn[trigram] === turn) return
      seenIn[trigram] = turn
      found.push(trigram)
    }
    const plain = name.normalize('NFD').toLowerCase()
    for (let at = 0; at < plain.length; at++) {
      const letter = letterOf(plain, at)
      if (letter !== undefined) take(letter)
    }
    take(0)
    return found
  }
}

/** Letters and digits from 1, all else 0; undefined for an accent, which NFD set apart from its letter. */
function letterOf(text: string, at: number): number | undefined {
  const code = text.charCodeAt(at)
  if (code >= 97 && code <= 122) return code - 96
  if (code >= 48 && code <= 57) return code - 48 + 27
  if (code < 128) return 0
  const char = text.charAt(at)
  if (/\p{M}/u.test(char)) return undefined
  return /[\p{L}\p{N}]/u.test(char) ? FOREIGN_FIRST + (code % FOREIGN) : 0
}
