/**
 * POST /prices and POST /bids: the parameters of a bulk snapshot.
 *
 * Rules: DECISIONS.md, "Bulk snapshots". The answer is one entry of schemas/api/listing.ts a
 * line, and no JSON as a whole.
 */
import { z } from 'zod'
import { providerKey, repeated } from './query-values.ts'

/** Parameters of a bulk snapshot; `providers` are the keys of its side. */
export const snapshotQuery = (providers: readonly string[]) =>
  z.object({ providers: repeated(providerKey(providers)).optional() })
