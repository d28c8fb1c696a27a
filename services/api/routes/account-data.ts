/**
 * The routes that export an account as one document, and delete it.
 *
 * Rules: DECISIONS.md, "Export and deletion". Reads and writes through the rooms that own the data. Invariant: an export holds one slice
 * of rows in memory, however much an account has; a deletion is one transaction, so all of an account is there or nothing.
 */
import type { Credential } from '#infra/http/credential.ts'
import { defineRoute, type Route } from '#infra/http/define-route.ts'
import { HttpError } from '#infra/http/http-error.ts'
import { stream } from '#infra/http/reply.ts'
import { accountExport } from '#schemas/api/account-export.ts'
import { ALL, json } from '#schemas/api/operation.ts'
import { exceededLimit } from '#schemas/api/rate-limit.ts'
import { deletionBody, okReply } from '#schemas/api/sign-in.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import { recordAction } from '#services/accounts/audit/commands.ts'
import { auditSlices } from '#services/accounts/audit/reader.ts'
import { beginDeletion, deleteAccount, requireSession } from '#services/accounts/commands.ts'
import { keySlices, type StoredKey } from '#services/accounts/keys/reader.ts'
import { listIdentities, readAccount, sessionSlices } from '#services/accounts/reader.ts'
import { removeAlerts } from '#services/alerts/rules/commands.ts'
import { alertEventSlices, alertSlices } from '#services/alerts/rules/reader.ts'
import { removeWebhooks } from '#services/alerts/webhooks/commands.ts'
import { deliverySlices, listWebhooks } from '#services/alerts/webhooks/reader.ts'
import { lockPortfolios, removePortfolios } from '#services/portfolios/commands.ts'
import { listPortfolios } from '#services/portfolios/reader.ts'
import { type ApiContext, originOf } from '../context.ts'
import { EXPENSIVE } from '../work-limits.ts'
import { infoOf } from './account-keys.ts'
import { shownAlert } from './alerts.ts'
import { entrySlices, jsonList, ledgerSlices, withItem } from './portfolios.ts'

const OWNER = { group: 'Sign-in', tiers: ALL, access: 'recent-session' } as const
const RETRY_SECONDS = 5
/** As of other streams. */
const RECHECK_MS = 1_000

export const accountDataRoutes = (api: ApiContext): Route[] => [exportAccount(api), removeAccount(api)]

function exportAccount(api: ApiContext): Route {
  const running = new Set<string>()
  return defineRoute({
    ...OWNER,
    id: 'exportAccount',
    method: 'get',
    path: '/account/export',
    summary: 'All that the account holds, as one document',
    description: `Keys, sessions and webhooks without their secrets. Each part is as of the moment at which it is read. ${EXPENSIVE} One at a time.`,
    reply: json('AccountExport', accountExport, 'The document, sent while it is read.'),
    async admit({ credential }) {
      await api.budget.charge(credential)
      const { accountId } = credential
      if (running.has(accountId)) {
        const detail = 'An export of this account is being sent already; let it end first.'
        throw new HttpError('RATE_LIMIT_EXCEEDED', detail, { exceeded: exceededLimit('exports', 1, RETRY_SECONDS) })
      }
      running.add(accountId)
      return { release: () => void running.delete(accountId) }
    },
    async handle({ credential, request, response, lease }) {
      const at = api.now()
      const origin = originOf(api, { credential, request })
      await recordAction(api.database.rows, origin, { kind: 'account.exported', at })
      const parts = whileOpen(documentOf(api, credential, at), () => requireSession(api.reads.rows, origin))
      const sent = await stream(response, parts)
      lease.release()
      return sent
    },
  })
}

/** Ends a document while its session is open; what was revoked or deleted meanwhile breaks it off. */
async function* whileOpen(parts: AsyncIterable<string>, requireOpen: () => Promise<void>): AsyncGenerator<string> {
  let checkedAt = performance.now()
  for await (const part of parts) {
    if (performance.now() - checkedAt >= RECHECK_MS) {
      await requireOpen()
      checkedAt = performance.now()
    }
    yield part
  }
  await requireOpen()
  yield '}'
}

/** The document but for its end, in pieces of bounded size. */
async function* documentOf(api: ApiContext, credential: Credential, now: number): AsyncGenerator<string> {
  const { reads } = api
  const { accountId } = credential
  const account = {
    ...(await readAccount(reads, accountId)),
    identities: await listIdentities(reads, accountId),
  }
  yield `{"generated_at":"${formatInstant(now)}","account":${JSON.stringify(account)}`
  const shownKey = (key: StoredKey) => ({ ...infoOf(api, credential, key), revoked_at: key.revoked_at })
  yield* jsonList(keySlices(reads, accountId), shownKey, ',"keys":[')
  yield* jsonList(sessionSlices(reads, accountId), one => one, ',"sessions":[')
  yield* jsonList(alertSlices(reads, accountId), shownAlert, ',"alerts":[')
  yield* jsonList(alertEventSlices(reads, accountId), one => one, ',"events":[')
  const webhooks = await listWebhooks(reads, accountId)
  yield `,"webhooks":${JSON.stringify(webhooks.map(({ secret_last4: _, ...webhook }) => webhook))}`
  yield* jsonList(deliverySlices(reads, accountId), one => one, ',"deliveries":[')
  yield* portfoliosOf(api, accountId)
  yield* jsonList(auditSlices(reads, accountId), ({ id: _, ...entry }) => entry, ',"audit_entries":[')
}

async function* portfoliosOf({ reads, catalog }: ApiContext, accountId: string): AsyncGenerator<string> {
  let before = ',"portfolios":['
  for (const portfolio of await listPortfolios({ database: reads }, accountId)) {
    yield `${before}${JSON.stringify(portfolio).slice(0, -1)}`
    yield* jsonList(entrySlices(reads, portfolio.id), one => withItem(catalog, one), ',"entries":[')
    const ledger = ledgerSlices(reads, { portfolioId: portfolio.id, order: 'oldest' })
    yield* jsonList(ledger, one => withItem(catalog, one), ',"ledger":[')
    before = '},'
  }
  yield before === '},' ? '}]' : `${before}]`
}

function removeAccount(api: ApiContext): Route {
  const { deletions, keys, now } = api
  return defineRoute({
    ...OWNER,
    id: 'deleteAccount',
    method: 'delete',
    path: '/account',
    summary: 'Delete the account with all that it holds',
    description:
      'At once, and cannot be undone: keys, sessions, alerts, webhooks, deliveries, portfolios. Open feeds and streams end within a second. Requests to webhooks that are under way end by themselves, others are not made. What is left are entries of the audit log without addresses.',
    body: deletionBody,
    reply: json('OkReply', okReply, 'It is gone.'),
    async handle({ body: { confirm }, credential, request }) {
      const origin = originOf(api, { credential, request })
      const { accountId } = origin
      await deletions.transaction(async query => {
        await lockPortfolios(query, accountId)
        await beginDeletion(query, origin, { confirm, now: now() })
        await removePortfolios(query, accountId)
        await removeWebhooks(query, accountId)
        // Last: triggers of all accounts are applied together, and would wait for the rows of these alerts.
        await removeAlerts(query, accountId)
        await deleteAccount(query, accountId)
      })
      keys.forget(accountId)
      return { ok: true }
    },
  })
}
