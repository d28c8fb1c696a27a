import { HttpError } from '#infra/http/http-error.ts'
import type { ErrorCode } from '#schemas/api/error.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import type { LiveReader } from '#streams/live-view/reader.ts'

/** The live view as requests read it: what cannot be read is the 503 of its side. */
export type LiveView = Pick<LiveReader, 'ofItems' | 'listing' | 'pinSnapshot'>

const UNAVAILABLE: Record<Side, { code: ErrorCode; index: string; snapshot: string }> = {
  ask: {
    code: 'PRICES_INDEX_UNAVAILABLE',
    index: 'The live price index is temporarily unavailable.',
    snapshot: 'The snapshot of live prices is temporarily unavailable.',
  },
  bid: {
    code: 'BIDS_INDEX_UNAVAILABLE',
    index: 'The live bids index is temporarily unavailable.',
    snapshot: 'The snapshot of live bids is temporarily unavailable.',
  },
}

/** The 503 of a side's bulk snapshot. */
export const snapshotUnavailable = (side: Side, cause?: unknown): HttpError =>
  new HttpError(UNAVAILABLE[side].code, UNAVAILABLE[side].snapshot, { cause })

/** Turns what a reader rejects with into the answers of the interface. */
export function openLiveView(reader: LiveReader): LiveView {
  const refuse = (side: Side) => (cause: unknown) => {
    throw new HttpError(UNAVAILABLE[side].code, UNAVAILABLE[side].index, { cause })
  }
  return {
    ofItems(side, itemIds) {
      const read = reader.ofItems(side, itemIds)
      return read instanceof Promise ? read.catch(refuse(side)) : read
    },
    listing: (side, providers, offset, limit) => reader.listing(side, providers, offset, limit).catch(refuse(side)),
    pinSnapshot: (side, providers) =>
      reader.pinSnapshot(side, providers).catch(cause => {
        throw snapshotUnavailable(side, cause)
      }),
  }
}
