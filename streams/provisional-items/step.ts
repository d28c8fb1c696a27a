/**
 * Which names that the catalog lacks become provisional items.
 *
 * Pure. State: the names that providers list, and the items that names have become. A name becomes an item once two providers have
 * listed it, in any spellings, in two refreshes each (schemas/api/DECISIONS.md, "Catalog"), and keeps its id. Bounded: a provider counts for so many
 * names at a time, and a name that nobody has listed for a week is forgotten. A record that adds nothing changes nothing, so a
 * repeat is harmless.
 */
import { draftFromNames } from '#infra/config/build/observed.ts'
import type { NameUnresolved } from '#schemas/events/dead-lettered.ts'
import type { NameSighted, Sighting } from '#schemas/events/name-sighted.ts'
import type { CatalogItem, ResolveItem } from '#schemas/values/catalog-item.ts'
import { DAY_MS } from '#schemas/values/instant.ts'
import { plainName } from '#schemas/values/item-name.ts'
import { type Phase, parsePhase } from '#schemas/values/phase.ts'
import { OK, type Outcome } from '#streams/runner/outcome.ts'

export interface SightedNames {
  /** The longest unchanged first. */
  readonly names: Map<string, NameSighted>
  /** For how many names each provider counts. */
  readonly namesOfProvider: Map<string, number>
  readonly itemIds: Map<string, number>
}

interface Effects {
  outcome: Outcome
  /** Changelog records; null removes the key. */
  stored: [key: string, value: NameSighted | null][]
  item?: { item_id: number; market_hash_name: string; phase: Phase | null }
}

/** Lower ids are those of the built catalog. */
export const FIRST_PROVISIONAL_ID = 100_000
const PROVIDERS_NEEDED = 2
const REFRESHES_NEEDED = 2
const MAX_NAMES_OF_PROVIDER = 5_000
const MAX_ITEMS = 20_000
const FORGOTTEN_AFTER_MS = 7 * DAY_MS
/** The longest name of the catalog has 79 characters. */
const MAX_NAME_LENGTH = 128

export const noNames = (): SightedNames => ({ names: new Map(), namesOfProvider: new Map(), itemIds: new Map() })

export function restore(state: SightedNames, key: string, value: NameSighted | null): void {
  remove(state, key)
  if (value === null) return
  if (value.item_id === null) add(state, key, value)
  else state.itemIds.set(key, value.item_id)
}

/** Takes a record of market.unresolved; `idOf` finds the items of the catalog. */
export function step(state: SightedNames, record: NameUnresolved, appendedAt: number, idOf: ResolveItem): Effects {
  const stored: Effects['stored'] = forgetOld(state, appendedAt).map(key => [key, null])
  const skip = (reason: string): Effects => ({ outcome: { kind: 'skip', reason }, stored })
  // Sinks meet names too, but a sale or a day's close is no listing.
  if (record.group !== 'book') return skip('not_listed')
  const { provider, observed_at: refresh } = record
  const name = plainName(record.market_hash_name)
  const phase = record.phase === null ? null : parsePhase(record.phase)
  if (phase === undefined) return skip('unknown_phase')
  if (name === '' || name.length > MAX_NAME_LENGTH || /\p{C}/u.test(name)) return skip('unusual_name')
  const key = `${phase ?? ''}|${name}`
  if (state.itemIds.has(key) || idOf(name, phase) !== undefined) return { outcome: OK, stored }
  const before = state.names.get(key)?.sightings ?? []
  const own = before.find(sighting => sighting.provider === provider)
  if (own === undefined && (state.namesOfProvider.get(provider) ?? 0) >= MAX_NAMES_OF_PROVIDER)
    return skip('too_many_names_of_provider')
  if (own?.refreshes.includes(refresh) || own?.refreshes.length === REFRESHES_NEEDED) return { outcome: OK, stored }
  const added: Sighting = { provider, refreshes: [...(own?.refreshes ?? []), refresh] }
  const sightings = [...before.filter(sighting => sighting !== own), added]
  const isConfirmed =
    sightings.filter(({ refreshes }) => refreshes.length === REFRESHES_NEEDED).length >= PROVIDERS_NEEDED
  if (isConfirmed && state.itemIds.size >= MAX_ITEMS) return skip('too_many_provisional_items')
  const value: NameSighted = isConfirmed
    ? { sightings: [], item_id: FIRST_PROVISIONAL_ID + state.itemIds.size, sighted_at: appendedAt }
    : { sightings, item_id: null, sighted_at: appendedAt }
  restore(state, key, value)
  stored.push([key, value])
  if (value.item_id === null) return { outcome: OK, stored }
  return { outcome: OK, stored, item: { item_id: value.item_id, market_hash_name: name, phase } }
}

function add({ names, namesOfProvider }: SightedNames, key: string, value: NameSighted): void {
  names.set(key, value)
  for (const { provider } of value.sightings) namesOfProvider.set(provider, (namesOfProvider.get(provider) ?? 0) + 1)
}

function remove({ names, namesOfProvider }: SightedNames, key: string): void {
  for (const { provider } of names.get(key)?.sightings ?? [])
    namesOfProvider.set(provider, (namesOfProvider.get(provider) ?? 1) - 1)
  names.delete(key)
}

function forgetOld(state: SightedNames, now: number): string[] {
  const old: string[] = []
  for (const [key, { sighted_at: sightedAt }] of state.names) {
    if (sightedAt > now - FORGOTTEN_AFTER_MS) break
    old.push(key)
  }
  for (const key of old) remove(state, key)
  return old
}

/** Whose picture it is (a team's, an event's) is not in the name. */
const GRAPHICS: ReadonlySet<string | null> = new Set(['Graffiti', 'Patch', 'Sticker', 'Sticker Slab'])

/** Drafts an item of its name alone; the rest is null. */
export function openDrafting(items: readonly CatalogItem[]): (name: string) => Omit<CatalogItem, 'item_id'> {
  const draftOf = draftFromNames({ drafts: [...items], families: new Map() })
  return name => {
    const draft = draftOf(name)
    return GRAPHICS.has(draft.item_type) ? { ...draft, item_subtype: null } : draft
  }
}
