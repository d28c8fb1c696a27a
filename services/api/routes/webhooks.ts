/**
 * The routes of webhooks: destinations, their secrets, and what was delivered to them.
 *
 * Rules: DECISIONS.md, "Webhooks". A destination and its delivery are written in one transaction, so that neither shows without
 * the other. A secret is in the one answer that issues it.
 */
import type { Request } from 'express'
import type { Credential } from '#infra/http/credential.ts'
import { defineRoute, type Route } from '#infra/http/define-route.ts'
import { HttpError } from '#infra/http/http-error.ts'
import type { Query } from '#infra/postgres/pool.ts'
import type { SealedBox } from '#infra/runtime/sealed-box.ts'
import { json, QUANT } from '#schemas/api/operation.ts'
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
} from '#schemas/api/webhooks.ts'
import {
  changeWebhook,
  createWebhook,
  type IssuedSecret,
  removeWebhook,
  requestRedelivery,
  requestTest,
  rotateWebhookSecret,
  type WebhookActor,
} from '#services/alerts/webhooks/commands.ts'
import { listDeliveries, listWebhooks, readDelivery, readWebhook } from '#services/alerts/webhooks/reader.ts'
import { type ApiContext, originOf } from '../context.ts'
import { itemNames, paginationOf } from '../queries/listing.ts'

const OPEN = { group: 'Webhooks', tiers: QUANT, access: 'account' } as const
const ADDRESSES =
  'Destinations whose host is, or resolves to, an address that is not public are refused: literal ones with a 422, names when connecting.'
const SIGNATURE =
  'custom and google_sheets get the signed event: `X-SVC-Signature` is the lower-case hex HMAC-SHA256 of `X-SVC-Timestamp`, a dot and the body, keyed by the secret.'

export const webhookRoutes = (api: ApiContext): Route[] => [
  ...deliveryLists(api),
  ...deliveryRequests(api),
  ...destinationRoutes(api),
  ...secretRoutes(api),
]

function deliveryLists({ database }: ApiContext): Route[] {
  return [
    defineRoute({
      ...OPEN,
      id: 'listWebhookDeliveries',
      method: 'get',
      path: '/account/webhooks/deliveries',
      summary: 'Deliveries to webhooks',
      description: 'Newest first, kept 90 days. `limit` is moved into 1 to 100.',
      query: deliveriesQuery,
      reply: json('DeliveriesReply', deliveriesReply, 'A page of deliveries.'),
      async handle({ query, credential }) {
        const { rows: deliveries, total } = await listDeliveries(database, credential.accountId, query)
        return { deliveries, pagination: paginationOf(query, total) }
      },
    }),
    defineRoute({
      ...OPEN,
      id: 'getWebhookDelivery',
      method: 'get',
      path: '/account/webhooks/deliveries/:id',
      params: webhookPath,
      summary: 'One delivery with its body and attempts',
      description: 'Up to seven attempts a round, the last about seven hours after the first.',
      reply: json('DeliveryReply', deliveryReply, 'The delivery.'),
      errors: ['DELIVERY_NOT_FOUND'],
      handle: ({ params: { id }, credential }) => readDelivery(database, credential.accountId, id),
    }),
  ]
}

function deliveryRequests({ database, catalog, now }: ApiContext): Route[] {
  return [
    defineRoute({
      ...OPEN,
      id: 'testWebhook',
      method: 'post',
      path: '/account/webhooks/:id/test',
      params: webhookPath,
      summary: 'Send a made-up event',
      description:
        'An `alert.triggered` whose `alert_id` is all zeros, with the header `X-SVC-Test: true` beside the signature.',
      reply: json('DeliveryIdReply', deliveryIdReply, 'The delivery, to be inspected.'),
      errors: ['WEBHOOK_NOT_FOUND', 'WEBHOOK_PAUSED'],
      async handle({ params: { id }, credential: { accountId } }) {
        const [item] = catalog.items()
        if (!item) throw new HttpError('SERVICE_UNAVAILABLE', 'The catalog is not loaded yet.')
        const options = { subject: itemNames(item), now: now() }
        return { delivery_id: await database.transaction(query => requestTest(query, accountId, id, options)) }
      },
    }),
    defineRoute({
      ...OPEN,
      id: 'redeliverWebhookDelivery',
      method: 'post',
      path: '/account/webhooks/deliveries/:id/redeliver',
      params: webhookPath,
      summary: 'Make a delivery again',
      description:
        'With the same delivery id, a round of attempts of its own, and to where its destination leads now; one that is pending is tried at once.',
      reply: json('DeliveryIdReply', deliveryIdReply, 'The delivery, to be inspected.'),
      errors: ['DELIVERY_NOT_FOUND', 'WEBHOOK_NOT_FOUND', 'WEBHOOK_PAUSED'],
      async handle({ params: { id }, credential: { accountId } }) {
        await database.transaction(query => requestRedelivery(query, accountId, id))
        return { delivery_id: id }
      },
    }),
  ]
}

function destinationRoutes(api: ApiContext): Route[] {
  const { database, refusesUrl } = api
  return [
    defineRoute({
      ...OPEN,
      id: 'listWebhooks',
      method: 'get',
      path: '/account/webhooks',
      summary: 'Webhook destinations',
      description: 'Newest first; never with their secrets.',
      reply: json('WebhooksReply', webhooksReply, 'All destinations of the account.'),
      handle: async ({ credential }) => ({ webhooks: await listWebhooks(database, credential.accountId) }),
    }),
    defineRoute({
      ...OPEN,
      id: 'updateWebhook',
      method: 'patch',
      path: '/account/webhooks/:id',
      params: webhookPath,
      summary: 'Change or pause a webhook destination',
      description: `What is left out stays. While paused nothing is sent; what is pending goes on when active again. ${ADDRESSES}`,
      body: webhookPatch(refusesUrl),
      reply: json('WebhookRecord', webhookRecord, 'The destination as it is now.'),
      errors: ['WEBHOOK_NOT_FOUND'],
      handle({ params: { id }, body: changes, credential, request }) {
        const actor = actorOf(api, { credential, request })
        return database.transaction(async query => {
          await changeWebhook(query, actor, id, changes)
          return readWebhook(query, actor.accountId, id)
        })
      },
    }),
    defineRoute({
      ...OPEN,
      id: 'deleteWebhook',
      method: 'delete',
      path: '/account/webhooks/:id',
      params: webhookPath,
      summary: 'Remove a webhook destination',
      description: 'Pending deliveries to it are cancelled: they fail and say so.',
      reply: json('WebhookRemovedReply', webhookRemovedReply, 'It is gone.'),
      errors: ['WEBHOOK_NOT_FOUND'],
      async handle({ params: { id }, credential, request }) {
        const actor = actorOf(api, { credential, request })
        await database.transaction(query => removeWebhook(query, actor, id))
        return { ok: true }
      },
    }),
  ]
}

function secretRoutes(api: ApiContext): Route[] {
  const { database, refusesUrl, box } = api
  const issue = async (actor: WebhookActor, work: (query: Query, box: SealedBox) => Promise<IssuedSecret>) => {
    if (!box) throw new HttpError('SERVICE_UNAVAILABLE', 'This service has no key to keep signing secrets with.')
    return database.transaction(async query => {
      const { id, secret } = await work(query, box)
      return { webhook: await readWebhook(query, actor.accountId, id), secret }
    })
  }
  return [
    defineRoute({
      ...OPEN,
      id: 'createWebhook',
      method: 'post',
      path: '/account/webhooks',
      summary: 'Create a webhook destination',
      description: `Up to ${WEBHOOKS_MAX} per account. ${SIGNATURE} ${ADDRESSES}`,
      body: webhookBody(refusesUrl),
      reply: json('WebhookSecretReply', webhookSecretReply, 'The destination and its secret, shown this once.', 201),
      errors: ['WEBHOOK_LIMIT_REACHED'],
      handle({ body: webhook, credential, request }) {
        const actor = actorOf(api, { credential, request })
        return issue(actor, (query, key) => createWebhook(query, actor, webhook, key))
      },
    }),
    defineRoute({
      ...OPEN,
      id: 'rotateWebhookSecret',
      method: 'post',
      path: '/account/webhooks/:id/rotate-secret',
      params: webhookPath,
      summary: 'Replace the signing secret',
      description: 'Whatever is sent from now on, retries included, is signed with the new one.',
      reply: json('WebhookSecretReply', webhookSecretReply, 'The destination and its new secret, shown this once.'),
      errors: ['WEBHOOK_NOT_FOUND'],
      handle({ params: { id }, credential, request }) {
        const actor = actorOf(api, { credential, request })
        return issue(actor, (query, key) => rotateWebhookSecret(query, actor, id, key))
      },
    }),
  ]
}

const actorOf = (api: ApiContext, route: { credential: Credential; request: Request }): WebhookActor => ({
  ...originOf(api, route),
  now: api.now(),
})
