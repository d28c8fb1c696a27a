/**
 * POST /prices and POST /bids: the parameters of a bulk snapshot.
 *
 * Pure. Source: interface.md POST /prices; decisions.md "Bulk NDJSON". The answer is one entry of
 * schemas/api/listing.ts a line, and no JSON as a whole.
 */
import { z } from 'zod'
import { providerKey, repeated } from './query-values.ts'

/** Parameters of a bulk snapshot; `providers` are the keys of its side. */
export const snapshotQuery = (providers: readonly string[]) =>
  z.object({ providers: repeated(providerKey(providers)).optional() })
