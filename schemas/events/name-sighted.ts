/**
 * The changelog of `provisional-items` (catalog.sightings, compacted): which providers list a name that the catalog lacks.
 *
 * Keys: `PHASE|NAME`, `position`. A tombstone removes a name that no provider has listed for a week.
 */
import { defineEvent, type EventValue, nullable } from './event.ts'

export const nameSighted = defineEvent('NameSighted', 1, 'Which providers list a name that the catalog lacks.', {
  /** Empty once the name is an item. */
  sightings: {
    type: 'array',
    items: {
      type: 'record',
      name: 'Sighting',
      fields: [
        { name: 'provider', type: 'string' },
        // `observed_at` of refreshes in which the provider listed the name, at most as many as are needed.
        { name: 'refreshes', type: { type: 'array', items: 'long' } },
      ],
    },
  },
  /** The provisional item of the name. */
  item_id: nullable('int'),
  /** When the log took the last record that added to it. */
  sighted_at: 'long',
})

export type NameSighted = EventValue<typeof nameSighted>
export type Sighting = NameSighted['sightings'][number]
