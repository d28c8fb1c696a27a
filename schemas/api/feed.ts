/**
 * What the feeds send and what POST /feed/token answers.
 *
 * Rules: DECISIONS.md, "Feeds". The feed writes its events as text for speed; tests hold what it sends against
 * these schemas, and the description of the feeds is made of them.
 */
import { z } from 'zod'

const instant = z.iso.datetime().describe('ISO 8601, UTC')

/** The first event of every stream. */
export const readyEvent = z.strictObject({
  providers: z.array(z.string()).describe('Keys of the providers that the stream tells of'),
  item_ids_filter_count: z.int().min(0).describe('Item ids named, repeats included'),
  market_hash_names_filter_count: z.int().min(0).describe('Names named, repeats included'),
})

/** A row that appeared, moved or went. */
export const feedItem = z.strictObject({
  item_id: z.int().describe('Unique per phase; key local state on it'),
  market_hash_name: z.string(),
  phase: z.string().nullable(),
  price: z.int().nullable().describe('Hundredths of a US dollar; null when removed'),
  qty: z.int().min(0).describe('Listings near the ask, or open buy orders; 0 when removed'),
  change: z.enum(['added', 'updated', 'removed']),
})

/** Changes of one provider, seen at one moment. */
export const changedEvent = z.strictObject({
  provider: z.string(),
  seen_at: instant,
  items: z.array(feedItem).min(1).max(1000),
})

/** With `resume=true`: what was missed cannot be delivered. */
export const resyncEvent = z.strictObject({
  reason: z.enum(['expired', 'unknown']).describe('Out of retention, or no place in this log'),
})

/** With `snapshot=true`: the state is complete and changes follow. */
export const snapshotEndEvent = z.strictObject({ items: z.int().min(0).describe('Rows of the state') })

/** A replay is complete. */
export const replayEndEvent = z.strictObject({ items: z.int().min(0).describe('Changes that were replayed') })

/** What POST /feed/token answers. */
export const feedTokenReply = z.strictObject({
  token: z.string().describe('Opens one stream, as the query parameter `token`'),
  expires_at: instant,
})
