import { z } from 'zod'
import { readJsonFile } from './json-file.ts'

const analyticsFile = z.strictObject({
  /** The two reference providers of the external part of the liquidity score (DECISIONS.md, "Liquidity"). */
  liquidity: z.strictObject({
    /** Its sales count. */
    sales_reference: z.string(),
    /** Its listings and the gap between its bids and asks count. */
    listings_reference: z.string(),
  }),
})

export const loadAnalytics = (): z.infer<typeof analyticsFile> =>
  readJsonFile(new URL('./analytics.json', import.meta.url), analyticsFile)
