/**
 * The routes of alerts: create, batch, list, change, delete, and their events.
 *
 * Rules: DECISIONS.md, "Alerts". Writes through services/accounts. Invariant: an alert is about an item of the
 * catalog; of a batch every entry has its result, in the order of the request.
 */
import type { Response, Router } from 'express'
import type { z } from 'zod'
import {
  type AlertBody,
  alertBatchBody,
  type alertBatchReply,
  alertBody,
  type alertEventReply,
  alertEventsQuery,
  alertParams,
  alertPatch,
  type alertReply,
  alertsQuery,
} from '#schemas/api/alerts.ts'
import { parseThreshold } from '#schemas/values/alert.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import {
  type AlertTerms,
  changeAlert,
  createAlerts,
  deleteAlert,
  type NewAlert,
} from '#services/alerts/rules/commands.ts'
import { listAlertEvents, listAlerts, type StoredAlert, type StoredAlertEvent } from '#services/alerts/rules/reader.ts'
import { parseBody, readBody } from '../body.ts'
import { itemNotFound } from '../errors.ts'
import { credentialOf, type Guard } from '../guard.ts'
import type { ApiParts } from '../parts.ts'
import { send } from '../reply.ts'
import { parse, parseParams } from '../request.ts'

type AlertRecord = z.infer<typeof alertReply>
type EventRecord = z.infer<typeof alertEventReply>
type BatchResult = z.infer<typeof alertBatchReply>['results'][number]

const DEFAULT_CURRENCY = 'USD'

/** Adds the routes. */
export function addAlertRoutes(router: Router, { account }: Guard, parts: ApiParts): void {
  const { database } = parts
  const scope = { isCurrency: (code: string) => parts.fx.isCurrency(code) }
  const everybody = account('free', 'starter', 'pro', 'quant')
  const [body, batchBody, patch] = [alertBody(scope), alertBatchBody(scope), alertPatch(scope)]

  router.post('/account/alerts', everybody, readBody, async (request, response) => {
    const wanted = newAlertOf(parts, parseBody(body, request))
    if (!wanted) throw itemNotFound()
    const { accountId } = credentialOf(response)
    const [created] = await createAlerts(database, accountId, [wanted], termsOf(parts, response))
    answer(response, 201, recordOf(created as StoredAlert))
  })
  router.post('/account/alerts/batch', everybody, readBody, async (request, response) => {
    const { alerts } = parseBody(batchBody, request)
    answer(response, 200, await createBatch(parts, response, alerts))
  })
  router.get('/account/alerts/events', everybody, async (request, response) => {
    const page = parse(alertEventsQuery, request)
    const { events, total } = await listAlertEvents(database, credentialOf(response).accountId, page)
    answer(response, 200, { events: events.map(eventOf), pagination: paginationOf(page, events.length, total) })
  })
  router.get('/account/alerts', everybody, async (request, response) => {
    const { search, ...page } = parse(alertsQuery, request)
    const { alerts, total } = await listAlerts(database, credentialOf(response).accountId, { ...page, search })
    answer(response, 200, { alerts: alerts.map(recordOf), pagination: paginationOf(page, alerts.length, total) })
  })
  router.patch('/account/alerts/:alert_id', everybody, readBody, async (request, response) => {
    const { alert_id } = parseParams(alertParams, request)
    const patched = parseBody(patch, request)
    const changes = {
      ...{ thresholdValue: patched.threshold_value, thresholdCurrency: patched.threshold_currency },
      isEnabled: patched.is_enabled,
    }
    const terms = { ...termsOf(parts, response), changes }
    answer(response, 200, recordOf(await changeAlert(database, credentialOf(response).accountId, alert_id, terms)))
  })
  router.delete('/account/alerts/:alert_id', everybody, async (request, response) => {
    const { alert_id } = parseParams(alertParams, request)
    await deleteAlert(database, credentialOf(response).accountId, alert_id)
    answer(response, 200, { ok: true })
  })
}

const answer = (response: Response, status: number, body: unknown): void => send(response, status, JSON.stringify(body))

const termsOf = ({ tiers, now }: ApiParts, response: Response): AlertTerms => ({
  most: tiers[credentialOf(response).tier].enabled_alerts,
  now: now(),
})

/** The alert that a body asks for; undefined when its item is not in the catalog. */
function newAlertOf({ catalog }: ApiParts, body: AlertBody): NewAlert | undefined {
  const item = catalog.byId(body.item_id)
  if (!item) return undefined
  return {
    ...{ itemId: item.item_id, marketHashName: item.market_hash_name, phase: item.phase },
    ...{ kind: body.kind, thresholdValue: body.threshold_value, isEnabled: body.is_enabled },
    thresholdCurrency: body.kind === 'spread_exceeds' ? null : (body.threshold_currency ?? DEFAULT_CURRENCY),
  }
}

/** Creates what a batch asks for; entries that repeat an earlier one or name no item fail alone. */
async function createBatch(
  parts: ApiParts,
  response: Response,
  alerts: readonly AlertBody[],
): Promise<z.infer<typeof alertBatchReply>> {
  const firstOf = new Map<string, number>()
  const wanted: NewAlert[] = []
  const results = alerts.map((body, index): BatchResult => {
    const alert = newAlertOf(parts, body)
    if (!alert) return failure(index, 'ITEM_NOT_FOUND', 'No catalog item has this id.')
    const { itemId, kind, thresholdValue, thresholdCurrency } = alert
    const same = [itemId, kind, parseThreshold(thresholdValue), thresholdCurrency].join(' ')
    const first = firstOf.get(same)
    if (first !== undefined) return failure(index, 'DUPLICATE_ALERT', `Repeats entry ${first} of this request.`)
    firstOf.set(same, index)
    wanted.push(alert)
    return { index, status: 'created', alert_id: null, code: null, message: null }
  })
  const { accountId } = credentialOf(response)
  const created =
    wanted.length === 0 ? [] : await createAlerts(parts.database, accountId, wanted, termsOf(parts, response))
  const ids = created.map(({ id }) => id)
  for (const result of results) if (result.status === 'created') result.alert_id = ids.shift() ?? null
  return { created: created.length, failed: alerts.length - created.length, results }
}

const failure = (index: number, code: BatchResult['code'], message: string): BatchResult => ({
  ...{ index, status: 'error', alert_id: null, code, message },
})

const paginationOf = ({ limit, offset }: { limit: number; offset: number }, shown: number, total: number) => ({
  ...{ limit, offset, total },
  has_next: offset + shown < total,
  has_prev: offset > 0,
})

const time = (at: number | null): string | null => (at === null ? null : formatInstant(at))

function recordOf(alert: StoredAlert): AlertRecord {
  return {
    id: alert.id,
    kind: alert.kind,
    threshold_value: alert.thresholdValue,
    threshold_currency: alert.thresholdCurrency,
    is_enabled: alert.isEnabled,
    last_triggered_at: time(alert.lastTriggeredAt),
    created_at: formatInstant(alert.createdAt),
    updated_at: formatInstant(alert.updatedAt),
    item: { item_id: alert.itemId, market_hash_name: alert.marketHashName, phase: alert.phase },
  }
}

function eventOf(event: StoredAlertEvent): EventRecord {
  return {
    id: event.id,
    alert_id: event.alertId,
    kind: event.kind,
    item: { item_id: event.itemId, market_hash_name: event.marketHashName, phase: event.phase },
    triggered_value: event.triggeredValue,
    triggered_currency: event.triggeredCurrency,
    reason: event.reason,
    created_at: formatInstant(event.createdAt),
    deliveries: event.deliveries.map(each => ({
      channel: each.channel,
      status: each.status as EventRecord['deliveries'][number]['status'],
      delivery_id: each.deliveryId,
      endpoint_id: each.endpointId,
      endpoint_label: each.endpointLabel,
      platform: each.platform,
      attempt_count: each.attemptCount,
      last_http_status: each.lastHttpStatus,
      next_attempt_at: time(each.nextAttemptAt),
      error: each.error,
      created_at: formatInstant(each.createdAt),
    })),
  }
}
