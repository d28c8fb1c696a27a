/** How far a processor has read an input partition: the key `position` of its changelog, last in each transaction. */
import { defineEvent, type EventValue } from './event.ts'

/** The key of a changelog's position. */
export const POSITION_KEY = 'position'

export const positionStored = defineEvent('PositionStored', 1, 'How far a processor has read an input partition.', {
  topic_id: 'string',
  next: 'long',
  /** The first offset of what is under way, such as a refresh that is not complete. */
  from: 'long',
})

export type PositionStored = EventValue<typeof positionStored>
