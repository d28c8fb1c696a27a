import { HttpError } from '#infra/http/http-error.ts'

/** The item that a request names is not in the catalog; `nearest` is the name that may have been meant. */
export function itemNotFound(nearest?: string): HttpError {
  if (nearest === undefined) {
    return new HttpError('ITEM_NOT_FOUND', 'No catalog item has this id, or this name and phase.')
  }
  return new HttpError('ITEM_NOT_FOUND', `No catalog item has this name; the nearest is "${nearest}".`)
}

/** The 403 for what a tier may not do. */
export const forbiddenTier = (detail: string): HttpError => new HttpError('FORBIDDEN_TIER', detail)
