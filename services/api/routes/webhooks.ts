/**
 * The routes of webhooks: destinations, their secrets, and what was delivered to them.
 *
 * Rules: DECISIONS.md, "Webhooks". Writes destinations through services/accounts and deliveries through services/delivery,
 * both in one transaction, so that neither shows without the other. Invariant: a secret is in the one answer that issues it.
 */
import type { Request, RequestHandler, Response, Router } from 'express'
import type { Query } from '#infra/postgres/pool.ts'
import type { SealedBox } from '#infra/runtime/sealed-box.ts'
import { openUuidSource } from '#infra/runtime/uuid-v7.ts'
import {
  chatMissing,
  deliveriesQuery,
  type WebhookRecord,
  webhookBody,
  webhookPatch,
  webhookPath,
} from '#schemas/api/webhooks.ts'
import {
  changeWebhook,
  createWebhook,
  type DeliveryRefusal,
  forgetDestination,
  type IssuedSecret,
  removeWebhook,
  requestRedelivery,
  requestTest,
  resumeDestination,
  rotateWebhookSecret,
  type WebhookActor,
  webhookNotFound,
} from '#services/alerts/webhooks/commands.ts'
import { listDeliveries, listWebhooks, readDelivery, readWebhook } from '#services/alerts/webhooks/reader.ts'
import { parseBody, readBody } from '../body.ts'
import { ApiError } from '../errors.ts'
import { credentialOf, type Guard } from '../guard.ts'
import type { ApiParts } from '../parts.ts'
import { send } from '../reply.ts'
import { parse, parseParams } from '../request.ts'

/** Adds the routes. */
export function addWebhookRoutes(router: Router, guard: Guard, parts: ApiParts): void {
  const quant = guard.account('quant')
  addDeliveryRoutes(router, quant, parts)
  addDestinationRoutes(router, quant, parts)
  addSecretRoutes(router, quant, parts)
}

function addDestinationRoutes(router: Router, quant: RequestHandler, parts: ApiParts): void {
  const { database } = parts
  const patch = webhookPatch(parts.refusesUrl)

  router.get('/account/webhooks', quant, async (_request, response) => {
    answer(response, 200, { webhooks: await listWebhooks(database, credentialOf(response).accountId) })
  })
  router.patch('/account/webhooks/:id', quant, readBody, async (request, response) => {
    const actor = actorOf(response, parts)
    const id = idOf(request)
    const changes = parseBody(patch, request)
    const webhook = await database.transaction(async query => {
      const changed = await changeWebhook(query, actor, id, changes)
      if (changed === 'chat missing') throw withoutChat(changes.url)
      if (changed.isResumed) await resumeDestination(query, id)
      return shown(query, actor, id)
    })
    answer(response, 200, webhook)
  })
  router.delete('/account/webhooks/:id', quant, async (request, response) => {
    const actor = actorOf(response, parts)
    const id = idOf(request)
    await database.transaction(async query => {
      await removeWebhook(query, actor, id)
      await forgetDestination(query, id)
    })
    answer(response, 200, { ok: true })
  })
}

function addSecretRoutes(router: Router, quant: RequestHandler, parts: ApiParts): void {
  const { database } = parts
  const body = webhookBody(parts.refusesUrl)
  const issue = async (actor: WebhookActor, work: (query: Query, box: SealedBox) => Promise<IssuedSecret>) => {
    const { box } = parts
    if (!box) throw new ApiError('SERVICE_UNAVAILABLE', 'This service has no key to keep signing secrets with.')
    return database.transaction(async query => {
      const { id, secret } = await work(query, box)
      return { webhook: await shown(query, actor, id), secret }
    })
  }

  router.post('/account/webhooks', quant, readBody, async (request, response) => {
    const actor = actorOf(response, parts)
    const wanted = parseBody(body, request)
    answer(response, 201, await issue(actor, (query, box) => createWebhook(query, actor, wanted, box)))
  })
  router.post('/account/webhooks/:id/rotate-secret', quant, async (request, response) => {
    const actor = actorOf(response, parts)
    const id = idOf(request)
    answer(response, 200, await issue(actor, (query, box) => rotateWebhookSecret(query, actor, id, box)))
  })
}

function addDeliveryRoutes(router: Router, quant: RequestHandler, parts: ApiParts): void {
  const { database, catalog } = parts
  const newId = openUuidSource()

  router.get('/account/webhooks/deliveries', quant, async (request, response) => {
    const { limit, offset } = parse(deliveriesQuery, request)
    const { deliveries, total } = await listDeliveries(database, credentialOf(response).accountId, { limit, offset })
    const pagination = { limit, offset, total, has_next: offset + deliveries.length < total, has_prev: offset > 0 }
    answer(response, 200, { deliveries, pagination })
  })
  router.get('/account/webhooks/deliveries/:id', quant, async (request, response) => {
    const delivery = await readDelivery(database, credentialOf(response).accountId, idOf(request))
    if (!delivery) throw refusalOf('no delivery')
    answer(response, 200, delivery)
  })
  router.post('/account/webhooks/:id/test', quant, async (request, response) => {
    const { accountId, now } = actorOf(response, parts)
    const id = idOf(request)
    const [item] = catalog.items()
    if (!item) throw new ApiError('SERVICE_UNAVAILABLE', 'The catalog is not loaded yet.')
    const { item_id, market_hash_name, phase } = item
    const options = { subject: { item_id, market_hash_name, phase }, newId, now }
    const asked = await database.transaction(query => requestTest(query, accountId, id, options))
    answer(response, 200, { delivery_id: accepted(asked) })
  })
  router.post('/account/webhooks/deliveries/:id/redeliver', quant, async (request, response) => {
    const { accountId } = credentialOf(response)
    const id = idOf(request)
    const asked = await database.transaction(query => requestRedelivery(query, accountId, id))
    answer(response, 200, { delivery_id: accepted(asked) })
  })
}

const idOf = (request: Request): string => parseParams(webhookPath, request).id

const actorOf = (response: Response, { now }: ApiParts): WebhookActor => ({
  accountId: credentialOf(response).accountId,
  now: now(),
})

/** The destination as it is shown, which the transaction has just written. */
async function shown(query: Query, { accountId }: WebhookActor, id: string): Promise<WebhookRecord> {
  const webhook = await readWebhook(query, accountId, id)
  if (!webhook) throw new Error('the webhook that was written is not there')
  return webhook
}

function accepted(asked: { deliveryId: string } | { refusal: DeliveryRefusal }): string {
  if ('refusal' in asked) throw refusalOf(asked.refusal)
  return asked.deliveryId
}

function refusalOf(refusal: DeliveryRefusal): Error {
  if (refusal === 'no destination') return webhookNotFound()
  if (refusal === 'paused') {
    return new ApiError('WEBHOOK_PAUSED', 'The webhook is paused; set is_active to true first.')
  }
  return new ApiError('DELIVERY_NOT_FOUND', 'This account has no delivery with this id.')
}

/** The URL and the platform may come from different requests, so their fit is judged on the whole. */
function withoutChat(url: string | undefined): ApiError {
  const { message, params, path } = chatMissing
  const violation = { type: params.type, loc: ['body', ...path], msg: message, input: url ?? null, ctx: {} }
  return new ApiError('VALIDATION_ERROR', [violation])
}

const answer = (response: Response, status: number, body: unknown): void => send(response, status, JSON.stringify(body))
