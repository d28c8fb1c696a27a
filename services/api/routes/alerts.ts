/**
 * The routes of alerts: create, batch, list, change, delete, and their events.
 *
 * Rules: DECISIONS.md, "Alerts".
 */
import type { z } from 'zod'
import type { Tier, TierLimits } from '#infra/config/tiers.ts'
import type { Credential } from '#infra/http/credential.ts'
import { defineRoute, type Route } from '#infra/http/define-route.ts'
import type { Database } from '#infra/postgres/pool.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import {
  type AlertBody,
  alertBatchBody,
  alertBatchReply,
  alertBody,
  alertEventsQuery,
  alertEventsReply,
  alertParams,
  alertPatch,
  alertReply,
  alertsQuery,
  alertsReply,
  deletedAlertReply,
} from '#schemas/api/alerts.ts'
import { ALL, json } from '#schemas/api/operation.ts'
import { parseThreshold } from '#schemas/values/alert.ts'
import {
  type AlertTerms,
  changeAlert,
  createAlerts,
  deleteAlert,
  type NewAlert,
} from '#services/alerts/rules/commands.ts'
import { listAlertEvents, listAlerts, type StoredAlert } from '#services/alerts/rules/reader.ts'
import { type AccountBudget, EXPENSIVE } from '../account-budget.ts'
import type { FxRates } from '../queries/fx-rates.ts'
import { itemNotFound } from '../queries/listing.ts'

/** What alerts need. */
export interface AlertNeeds {
  database: Database
  /** Of lists and searches, which must not keep writes waiting. */
  reads: Database
  budget: AccountBudget
  catalog: CatalogReader
  fx: FxRates
  tiers: Record<Tier, TierLimits>
  /** Milliseconds since the epoch. */
  now: () => number
}

type BatchResult = z.infer<typeof alertBatchReply>['results'][number]

const DEFAULT_CURRENCY = 'USD'
const OPEN = { group: 'Alerts', tiers: ALL, access: 'account' } as const
const ENABLING = ['ALERT_LIMIT_REACHED', 'EMAIL_NOT_VERIFIED', 'NO_DELIVERY_CHANNEL'] as const
const CHANNEL =
  'An enabled alert needs a channel: a verified e-mail address with alert e-mails on, or (quant) an active webhook.'
const CAP =
  'Enabled alerts at most: 10 on free, 50 on starter, 500 on pro, 10,000 on quant; with disabled ones 100, 500, 5,000, 50,000.'

/** The routes. */
export const alertRoutes = (needs: AlertNeeds): Route[] => [
  ...creations(needs),
  ...lists(needs),
  changeOne(needs),
  deleteOne(needs),
]

function creations(needs: AlertNeeds): Route[] {
  const scope = scopeOf(needs)
  return [
    defineRoute({
      ...OPEN,
      id: 'createAlert',
      method: 'post',
      path: '/account/alerts',
      summary: 'Create an alert',
      description: `${CHANNEL} ${CAP} It fires once and is then disabled; it also fires when its condition holds already.`,
      body: alertBody(scope),
      reply: json('Alert', alertReply, 'The alert.', 201),
      errors: [...ENABLING, 'ITEM_NOT_FOUND'],
      async handle({ body, credential }) {
        const wanted = newAlertOf(needs, body)
        if (!wanted) throw itemNotFound()
        const terms = termsOf(needs, credential)
        const [created] = await createAlerts(needs.database, credential.accountId, [wanted], terms)
        return shownAlert(created as StoredAlert)
      },
    }),
    defineRoute({
      ...OPEN,
      id: 'batchCreateAlerts',
      method: 'post',
      path: '/account/alerts/batch',
      summary: 'Create up to 100 alerts in one request',
      description: `Entries that repeat an earlier one (item, kind, threshold) or name no item fail alone. If the rest would exceed the cap, nothing is created. ${CHANNEL} ${CAP}`,
      body: alertBatchBody(scope),
      reply: json('AlertBatchReply', alertBatchReply, 'What became of each entry, in the order of the request.'),
      errors: ENABLING,
      handle: ({ body, credential }) => createBatch(needs, credential, body.alerts),
    }),
  ]
}

const lists = ({ reads, budget }: AlertNeeds): Route[] => [
  defineRoute({
    ...OPEN,
    id: 'listAlertEvents',
    method: 'get',
    path: '/account/alerts/events',
    summary: 'Events of alerts, newest first',
    description: '`limit` is moved into 1 to 100. With every e-mail and webhook delivery. Kept for 90 days.',
    query: alertEventsQuery,
    reply: json('AlertEventsReply', alertEventsReply, 'A page of events.'),
    errors: [],
    async handle({ query, credential }) {
      const { events, total } = await listAlertEvents(reads, credential.accountId, query)
      return { events, pagination: paginationOf(query, events.length, total) }
    },
  }),
  defineRoute({
    ...OPEN,
    id: 'listAlerts',
    method: 'get',
    path: '/account/alerts',
    summary: 'Alerts, newest first',
    description: `\`limit\` is moved into 1 to 200. A \`search\` of digits alone is an item id, any other a part of a name. With it: ${EXPENSIVE}`,
    query: alertsQuery,
    reply: json('AlertsReply', alertsReply, 'A page of alerts.'),
    errors: [],
    async handle({ query: { search, ...page }, credential }) {
      if (search !== undefined) await budget.charge(credential)
      const { alerts, total } = await listAlerts(reads, credential.accountId, { ...page, search })
      return { alerts: alerts.map(shownAlert), pagination: paginationOf(page, alerts.length, total) }
    },
  }),
]

const changeOne = (needs: AlertNeeds): Route =>
  defineRoute({
    ...OPEN,
    id: 'updateAlert',
    method: 'patch',
    path: '/account/alerts/:alert_id',
    summary: 'Change, enable or disable an alert',
    description: 'Enabling passes the checks of creation, and may fire at once. What is left out stays.',
    params: alertParams,
    body: alertPatch(scopeOf(needs)),
    reply: json('Alert', alertReply, 'The alert as it is now.'),
    errors: [...ENABLING, 'ALERT_NOT_FOUND'],
    async handle({ params: { alert_id }, body, credential }) {
      const terms = { ...termsOf(needs, credential), changes: body }
      return shownAlert(await changeAlert(needs.database, credential.accountId, alert_id, terms))
    },
  })

const deleteOne = ({ database }: AlertNeeds): Route =>
  defineRoute({
    ...OPEN,
    id: 'deleteAlert',
    method: 'delete',
    path: '/account/alerts/:alert_id',
    summary: 'Delete an alert for good',
    description: 'Its events stay.',
    params: alertParams,
    reply: json('DeletedAlertReply', deletedAlertReply, 'It is gone.'),
    errors: ['ALERT_NOT_FOUND'],
    async handle({ params: { alert_id }, credential }) {
      await deleteAlert(database, credential.accountId, alert_id)
      return { ok: true }
    },
  })

const scopeOf = ({ fx }: AlertNeeds) => ({ isCurrency: (code: string) => fx.isCurrency(code) })

const termsOf = ({ tiers, now }: AlertNeeds, { tier }: Credential): AlertTerms => ({
  most: tiers[tier].enabled_alerts,
  mostInAll: tiers[tier].alerts,
  now: now(),
})

/** The alert that a body asks for; undefined when its item is not in the catalog. */
function newAlertOf({ catalog }: AlertNeeds, body: AlertBody): NewAlert | undefined {
  const item = catalog.byId(body.item_id)
  if (!item) return undefined
  return {
    item_id: item.item_id,
    market_hash_name: item.market_hash_name,
    phase: item.phase,
    kind: body.kind,
    threshold_value: body.threshold_value,
    threshold_currency: body.kind === 'spread_exceeds' ? null : (body.threshold_currency ?? DEFAULT_CURRENCY),
    is_enabled: body.is_enabled,
  }
}

/** Creates what a batch asks for; entries that repeat an earlier one or name no item fail alone. */
async function createBatch(
  needs: AlertNeeds,
  credential: Credential,
  alerts: readonly AlertBody[],
): Promise<z.infer<typeof alertBatchReply>> {
  const firstOf = new Map<string, number>()
  const wanted: NewAlert[] = []
  const results = alerts.map((body, index): BatchResult => {
    const alert = newAlertOf(needs, body)
    if (!alert) return failure(index, 'ITEM_NOT_FOUND', 'No catalog item has this id.')
    const { item_id, kind, threshold_value, threshold_currency } = alert
    const same = [item_id, kind, parseThreshold(threshold_value), threshold_currency].join(' ')
    const first = firstOf.get(same)
    if (first !== undefined) return failure(index, 'DUPLICATE_ALERT', `Repeats entry ${first} of this request.`)
    firstOf.set(same, index)
    wanted.push(alert)
    return { index, status: 'created', alert_id: null, code: null, message: null }
  })
  const terms = termsOf(needs, credential)
  const created = wanted.length === 0 ? [] : await createAlerts(needs.database, credential.accountId, wanted, terms)
  const ids = created.map(({ id }) => id)
  for (const result of results) if (result.status === 'created') result.alert_id = ids.shift() ?? null
  return { created: created.length, failed: alerts.length - created.length, results }
}

const failure = (index: number, code: BatchResult['code'], message: string): BatchResult => ({
  index,
  status: 'error',
  alert_id: null,
  code,
  message,
})

const paginationOf = ({ limit, offset }: { limit: number; offset: number }, shown: number, total: number) => ({
  limit,
  offset,
  total,
  has_next: offset + shown < total,
  has_prev: offset > 0,
})

/** What is shown of an alert. */
export const shownAlert = ({
  account_id: _,
  version: __,
  item_id,
  market_hash_name,
  phase,
  ...alert
}: StoredAlert): z.infer<typeof alertReply> => ({ ...alert, item: { item_id, market_hash_name, phase } })
