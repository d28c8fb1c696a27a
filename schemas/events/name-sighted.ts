/**
 * The changelog of `provisional-items` (catalog.sightings, compacted): which providers list a name that the catalog lacks.
 *
 * Keys: `PHASE|NAME`, `position`. A tombstone removes a name that no provider has listed for a week.
 */
import { defineEvent, nullable } from './event.ts'

/** In which refreshes a provider listed a name. */
export interface Sighting {
  provider: string
  /** Their `observed_at`, at most as many as are needed. */
  refreshes: readonly number[]
}

/** A name that the catalog lacks. */
export interface NameSighted {
  /** Empty once the name is an item. */
  sightings: readonly Sighting[]
  /** The provisional item of the name. */
  item_id: number | null
  /** When the log took the last record that added to it. */
  sighted_at: number
}

/** Which providers list a name that the catalog lacks. */
export const nameSighted = defineEvent<NameSighted>(
  'NameSighted',
  1,
  'Which providers list a name that the catalog lacks.',
  {
    sightings: {
      type: 'array',
      items: {
        type: 'record',
        name: 'Sighting',
        fields: [
          { name: 'provider', type: 'string' },
          { name: 'refreshes', type: { type: 'array', items: 'long' } },
        ],
      },
    },
    item_id: nullable('int'),
    sighted_at: 'long',
  },
)
