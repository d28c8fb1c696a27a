/**
 * GET /providers and GET /fx: the providers, their health, and the exchange rates in force.
 *
 * Rules: DECISIONS.md, "Provider health" and "Amounts and rates". Rates are written with the digits of their source.
 */
import type { Router } from 'express'
import { providersQuery } from '#schemas/api/providers.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import type { FxTable } from '#streams/fx/reader.ts'
import { orUnavailable } from '../errors.ts'
import type { Allow } from '../guard.ts'
import type { ApiParts } from '../parts.ts'
import { ratesUnavailable } from '../queries/fx-rates.ts'
import { providerRecordOf } from '../queries/provider-records.ts'
import { send } from '../reply.ts'
import { parse } from '../request.ts'

/** Adds both routes. */
export function addProviderRoutes(router: Router, allow: Allow, parts: ApiParts): void {
  const { registry, health: view, catalog, fx } = parts
  const everyone = allow('free', 'starter', 'pro', 'quant')
  const query = providersQuery(registry.askKeys)

  router.get('/providers', everyone, async (request, response) => {
    const { provider: only } = parse(query, request)
    const providers = registry.all.filter(({ key }) => only === undefined || key === only)
    const read = view.read(providers.map(({ key }) => key))
    const health = await orUnavailable(read, 'SERVICE_UNAVAILABLE', 'Provider health is temporarily unavailable.')
    const scope = { now: parts.now(), catalogItems: catalog.items().length }
    const records = providers.map(entry => [entry.display_name, providerRecordOf(entry, health.get(entry.key), scope)])
    send(response, 200, JSON.stringify(Object.fromEntries(records)))
  })

  router.get('/fx', everyone, (_request, response) => {
    const table = fx.current()
    if (!table) throw ratesUnavailable()
    send(response, 200, fxText(table))
  })
}

/** A double would cut the digits of some rates, so the answer holds their own text. */
function fxText({ asOf, rates }: FxTable): string {
  const members = [...rates].map(([code, rate]) => `${JSON.stringify(code)}:${numberText(rate.text)}`)
  return `{"timestamp":"${formatInstant(asOf)}","rates":{${members.join(',')}}}`
}

/** JSON has no leading zeros, which a rate's text may have. */
const numberText = (text: string): string => text.replace(/^0+(?=\d)/, '')
