/**
 * The operations of alerts.
 *
 * Rules: DECISIONS.md, "Alerts".
 */
import {
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
} from './alerts.ts'
import { ALL, get, json, type Operation, patch, post, remove } from './operation.ts'

const GROUP = 'Alerts'
const OPEN = { tiers: ALL, access: 'account' } as const
const ENABLING = ['ALERT_LIMIT_REACHED', 'EMAIL_NOT_VERIFIED', 'NO_DELIVERY_CHANNEL'] as const
const CHANNEL =
  'An enabled alert needs a channel: a verified e-mail address with alert e-mails on, or (quant) an active webhook.'
const CAP = 'Enabled alerts at most: 10 on free, 50 on starter, 500 on pro, 10,000 on quant.'

const scope = { isCurrency: () => true }

/** All operations of alerts. */
export function alertOperations(): Operation[] {
  return [
    {
      ...{ ...post('createAlert', '/account/alerts', GROUP), ...OPEN },
      summary: 'Create an alert',
      description: `${CHANNEL} ${CAP} It fires once and is then disabled; it also fires when its condition holds already.`,
      body: alertBody(scope),
      reply: json('Alert', alertReply, 'The alert.', 201),
      errors: [...ENABLING, 'ITEM_NOT_FOUND'],
    },
    {
      ...{ ...post('createAlerts', '/account/alerts/batch', GROUP), ...OPEN },
      summary: 'Create up to 100 alerts in one request',
      description: `Entries that repeat an earlier one (item, kind, threshold) or name no item fail alone. If the rest would exceed the cap, nothing is created. ${CHANNEL} ${CAP}`,
      body: alertBatchBody(scope),
      reply: json('AlertBatchReply', alertBatchReply, 'What became of each entry, in the order of the request.'),
      errors: ENABLING,
    },
    {
      ...{ ...get('listAlerts', '/account/alerts', GROUP), ...OPEN },
      summary: 'Alerts, newest first',
      description:
        '`limit` is moved into 1 to 200. A `search` of digits alone is an item id, any other a part of a name.',
      query: alertsQuery,
      reply: json('AlertsReply', alertsReply, 'A page of alerts.'),
      errors: [],
    },
    {
      ...{ ...get('listAlertEvents', '/account/alerts/events', GROUP), ...OPEN },
      summary: 'What alerts told, newest first',
      description: '`limit` is moved into 1 to 100. With every e-mail and webhook delivery. Kept for 90 days.',
      query: alertEventsQuery,
      reply: json('AlertEventsReply', alertEventsReply, 'A page of events.'),
      errors: [],
    },
    {
      ...{ ...patch('changeAlert', '/account/alerts/:alert_id', GROUP), ...OPEN },
      summary: 'Change, enable or disable an alert',
      description: 'Enabling passes the checks of creation, and may fire at once. What is left out stays.',
      params: alertParams,
      body: alertPatch(scope),
      reply: json('Alert', alertReply, 'The alert as it is now.'),
      errors: [...ENABLING, 'ALERT_NOT_FOUND'],
    },
    {
      ...{ ...remove('deleteAlert', '/account/alerts/:alert_id', GROUP), ...OPEN },
      summary: 'Delete an alert for good',
      description: 'Its events stay.',
      params: alertParams,
      reply: json('DeletedAlertReply', deletedAlertReply, 'It is gone.'),
      errors: ['ALERT_NOT_FOUND'],
    },
  ]
}
