/**
 * The operations of webhooks, for the API's description.
 *
 * Rules: DECISIONS.md, "Webhooks".
 */
import { get, json, type Operation, patch, post, QUANT, remove } from './operation.ts'
import {
  deliveriesQuery,
  deliveriesReply,
  deliveryIdReply,
  deliveryReply,
  WEBHOOKS_MAX,
  webhookBody,
  webhookPatch,
  webhookPath,
  webhookRecord,
  webhookRemovedReply,
  webhookSecretReply,
  webhooksReply,
} from './webhooks.ts'

const GROUP = 'Webhooks'
const FOR = { tiers: QUANT, access: 'account' } as const
const params = webhookPath
const refusesNone = () => false

const ADDRESSES =
  'Destinations whose host is, or resolves to, an address that is not public are refused: literal ones with a 422, names when connecting.'
const SIGNATURE =
  'custom and google_sheets get the signed event: `X-SVC-Signature` is the lower-case hex HMAC-SHA256 of `X-SVC-Timestamp`, a dot and the body, keyed by the secret.'

/** All operations of webhooks. */
export function webhookOperations(): Operation[] {
  return [...destinationOperations(), ...deliveryOperations()]
}

function destinationOperations(): Operation[] {
  return [
    {
      ...{ ...get('listWebhooks', '/account/webhooks', GROUP), ...FOR },
      summary: 'Webhook destinations',
      description: 'Newest first; never with their secrets.',
      reply: json('WebhooksReply', webhooksReply, 'All destinations of the account.'),
      errors: [],
    },
    {
      ...{ ...post('createWebhook', '/account/webhooks', GROUP), ...FOR },
      summary: 'Create a webhook destination',
      description: `Up to ${WEBHOOKS_MAX} per account. ${SIGNATURE} ${ADDRESSES}`,
      body: webhookBody(refusesNone),
      reply: json('WebhookSecretReply', webhookSecretReply, 'The destination and its secret, shown this once.', 201),
      errors: ['WEBHOOK_LIMIT_REACHED'],
    },
    {
      ...{ ...patch('changeWebhook', '/account/webhooks/:id', GROUP), ...FOR },
      summary: 'Change or pause a webhook destination',
      description: `What is left out stays. While paused nothing is sent; what is pending goes on when active again. ${ADDRESSES}`,
      params,
      body: webhookPatch(refusesNone),
      reply: json('WebhookRecord', webhookRecord, 'The destination as it is now.'),
      errors: ['WEBHOOK_NOT_FOUND'],
    },
    {
      ...{ ...remove('removeWebhook', '/account/webhooks/:id', GROUP), ...FOR },
      summary: 'Remove a webhook destination',
      description: 'Pending deliveries to it are cancelled: they fail and say so.',
      params,
      reply: json('WebhookRemovedReply', webhookRemovedReply, 'It is gone.'),
      errors: ['WEBHOOK_NOT_FOUND'],
    },
    {
      ...{ ...post('rotateWebhookSecret', '/account/webhooks/:id/rotate-secret', GROUP), ...FOR },
      summary: 'Replace the signing secret',
      description: 'Whatever is sent from now on, retries included, is signed with the new one.',
      params,
      reply: json('WebhookSecretReply', webhookSecretReply, 'The destination and its new secret, shown this once.'),
      errors: ['WEBHOOK_NOT_FOUND'],
    },
    {
      ...{ ...post('testWebhook', '/account/webhooks/:id/test', GROUP), ...FOR },
      summary: 'Send a made-up event',
      description:
        'An `alert.triggered` whose `alert_id` is all zeros, with the header `X-SVC-Test: true` beside the signature.',
      params,
      reply: json('DeliveryIdReply', deliveryIdReply, 'The delivery, to be looked at.'),
      errors: ['WEBHOOK_NOT_FOUND', 'WEBHOOK_PAUSED'],
    },
  ]
}

function deliveryOperations(): Operation[] {
  return [
    {
      ...{ ...get('listDeliveries', '/account/webhooks/deliveries', GROUP), ...FOR },
      summary: 'Deliveries to webhooks',
      description: 'Newest first, kept 90 days. `limit` is moved into 1 to 100.',
      query: deliveriesQuery,
      reply: json('DeliveriesReply', deliveriesReply, 'A page of deliveries.'),
      errors: [],
    },
    {
      ...{ ...get('readDelivery', '/account/webhooks/deliveries/:id', GROUP), ...FOR },
      summary: 'One delivery with its body and attempts',
      description: 'Up to seven attempts a round, the last about seven hours after the first.',
      params,
      reply: json('DeliveryReply', deliveryReply, 'The delivery.'),
      errors: ['DELIVERY_NOT_FOUND'],
    },
    {
      ...{ ...post('redeliver', '/account/webhooks/deliveries/:id/redeliver', GROUP), ...FOR },
      summary: 'Make a delivery again',
      description:
        'With the same delivery id, a round of attempts of its own, and to where its destination leads now; one that is pending is tried at once.',
      params,
      reply: json('DeliveryIdReply', deliveryIdReply, 'The delivery, to be looked at.'),
      errors: ['DELIVERY_NOT_FOUND', 'WEBHOOK_NOT_FOUND', 'WEBHOOK_PAUSED'],
    },
  ]
}
