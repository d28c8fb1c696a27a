/** The routes of alerts: create, batch, list, change, delete, and their events. Rules: DECISIONS.md, "Alerts". */
import type { z } from 'zod'
import type { Credential } from '#infra/http/credential.ts'
import { defineRoute, type Route } from '#infra/http/define-route.ts'
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
import type { ApiContext } from '../context.ts'
import { itemNames, itemNotFound, paginationOf } from '../queries/listing.ts'
import { EXPENSIVE } from '../work-limits.ts'

type BatchResult = z.infer<typeof alertBatchReply>['results'][number]

const DEFAULT_CURRENCY = 'USD'
const OPEN = { group: 'Alerts', tiers: ALL, access: 'account' } as const
const ENABLING = ['ALERT_LIMIT_REACHED', 'EMAIL_NOT_VERIFIED', 'NO_DELIVERY_CHANNEL'] as const
const CHANNEL =
  'An enabled alert needs a channel: a verified e-mail address with alert e-mails on, or (quant) an active webhook.'
const CAP =
  'Enabled alerts at most: 10 on free, 50 on starter, 500 on pro, 10,000 on quant; with disabled ones 100, 500, 5,000, 50,000.'

export const alertRoutes = (api: ApiContext): Route[] => [
  ...creations(api),
  ...lists(api),
  changeOne(api),
  deleteOne(api),
]

function creations(api: ApiContext): Route[] {
  const scope = scopeOf(api)
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
        const alert = newAlertOf(api, body)
        if (!alert) throw itemNotFound()
        const terms = termsOf(api, credential)
        const [created] = await createAlerts(api.database, credential.accountId, [alert], terms)
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
      handle: ({ body, credential }) => createBatch(api, credential, body.alerts),
    }),
  ]
}

const lists = ({ reads, budget }: ApiContext): Route[] => [
  defineRoute({
    ...OPEN,
    id: 'listAlertEvents',
    method: 'get',
    path: '/account/alerts/events',
    summary: 'Events of alerts, newest first',
    description: '`limit` is moved into 1 to 100. With every e-mail and webhook delivery. Kept for 90 days.',
    query: alertEventsQuery,
    reply: json('AlertEventsReply', alertEventsReply, 'A page of events.'),
    async handle({ query, credential }) {
      const { rows: events, total } = await listAlertEvents(reads, credential.accountId, query)
      return { events, pagination: paginationOf(query, total) }
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
    async handle({ query: { search, ...page }, credential }) {
      if (search !== undefined) await budget.charge(credential)
      const { rows, total } = await listAlerts(reads, credential.accountId, { ...page, search })
      return { alerts: rows.map(shownAlert), pagination: paginationOf(page, total) }
    },
  }),
]

const changeOne = (api: ApiContext): Route =>
  defineRoute({
    ...OPEN,
    id: 'updateAlert',
    method: 'patch',
    path: '/account/alerts/:alert_id',
    summary: 'Change, enable or disable an alert',
    description: 'Enabling passes the checks of creation, and may fire at once. What is left out stays.',
    params: alertParams,
    body: alertPatch(scopeOf(api)),
    reply: json('Alert', alertReply, 'The alert as it is now.'),
    errors: [...ENABLING, 'ALERT_NOT_FOUND'],
    async handle({ params: { alert_id }, body, credential }) {
      const terms = { ...termsOf(api, credential), changes: body }
      return shownAlert(await changeAlert(api.database, credential.accountId, alert_id, terms))
    },
  })

const deleteOne = ({ database }: ApiContext): Route =>
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

const scopeOf = ({ fx }: ApiContext) => ({ isCurrency: fx.isCurrency })

const termsOf = ({ tiers, now }: ApiContext, { tier }: Credential): AlertTerms => ({
  most: tiers[tier].enabled_alerts,
  mostInAll: tiers[tier].alerts,
  now: now(),
})

/** The alert that a body asks for; undefined when its item is not in the catalog. */
function newAlertOf({ catalog }: ApiContext, body: AlertBody): NewAlert | undefined {
  const item = catalog.byId(body.item_id)
  if (!item) return undefined
  return {
    ...itemNames(item),
    kind: body.kind,
    threshold_value: body.threshold_value,
    threshold_currency: body.kind === 'spread_exceeds' ? null : (body.threshold_currency ?? DEFAULT_CURRENCY),
    is_enabled: body.is_enabled,
  }
}

/** Creates what a batch asks for; entries that repeat an earlier one or name no item fail alone. */
async function createBatch(
  api: ApiContext,
  credential: Credential,
  alerts: readonly AlertBody[],
): Promise<z.infer<typeof alertBatchReply>> {
  const firstOf = new Map<string, number>()
  const newAlerts: NewAlert[] = []
  const results = alerts.map((body, index): BatchResult => {
    const alert = newAlertOf(api, body)
    if (!alert) return failure(index, 'ITEM_NOT_FOUND', 'No catalog item has this id.')
    const { item_id, kind, threshold_value, threshold_currency } = alert
    const same = [item_id, kind, parseThreshold(threshold_value), threshold_currency].join(' ')
    const first = firstOf.get(same)
    if (first !== undefined) return failure(index, 'DUPLICATE_ALERT', `Repeats entry ${first} of this request.`)
    firstOf.set(same, index)
    newAlerts.push(alert)
    return { index, status: 'created', alert_id: null, code: null, message: null }
  })
  const terms = termsOf(api, credential)
  const created = newAlerts.length === 0 ? [] : await createAlerts(api.database, credential.accountId, newAlerts, terms)
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

export const shownAlert = ({
  account_id: _,
  version: __,
  item_id,
  market_hash_name,
  phase,
  ...alert
}: StoredAlert): z.infer<typeof alertReply> => ({ ...alert, item: { item_id, market_hash_name, phase } })
