/**
 * The role `inventory-stand-in`: the stand-in for the game's platform on the process's HTTP host, for development.
 *
 * Reads the catalog alone. Invariant: it answers below its own path, and nothing asks it unless MARKETLOG_INVENTORY_URL
 * names it.
 */
import { STAND_IN_PATH } from '#infra/config/stand-in-inventory.ts'
import type { StartRole } from '#infra/runtime/role.ts'
import { openStandIn } from './stand-in.ts'

/** Starts the stand-in. */
export const start: StartRole = async context => {
  const catalog = await context.catalog()
  const standIn = openStandIn(catalog.items())
  context.http.mount([STAND_IN_PATH], (request, response) => {
    const { status, type, body, retryAfterSeconds } = standIn.answer((request.url ?? '').slice(STAND_IN_PATH.length))
    response.writeHead(status, {
      'content-type': type,
      'content-length': Buffer.byteLength(body),
      ...(retryAfterSeconds !== undefined && { 'retry-after': String(retryAfterSeconds) }),
    })
    response.end(body)
  })
  return { name: 'inventory-stand-in', ready: async () => undefined, stop: async () => {} }
}
