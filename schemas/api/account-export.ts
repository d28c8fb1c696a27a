/** All that an account holds, as one document. Rules: DECISIONS.md, "Export and deletion". Nothing in it opens anything. */
import { z } from 'zod'
import { keyInfo, keyReply } from './account-keys.ts'
import { alertEventReply, alertEventsReply, alertReply } from './alerts.ts'
import { entryReply, portfolioReply } from './portfolios.ts'
import { instant } from './reply-values.ts'
import { accountReply } from './sign-in.ts'
import { transactionReply } from './transactions.ts'
import { deliveryReply, webhookRecord } from './webhooks.ts'

const AT = '2026-03-01T09:00:00.000Z'
const example = <T>(schema: z.ZodType<T>): T => schema.meta()?.example as T
const { secret_last4: _, ...exampleWebhook } = example(webhookRecord)

export const accountExport = z
  .strictObject({
    generated_at: instant,
    account: accountReply.extend({
      identities: z
        .array(z.strictObject({ issuer: z.string(), subject: z.string(), created_at: instant }))
        .describe('Who may sign in.'),
    }),
    keys: z.array(keyInfo.extend({ revoked_at: instant.nullable() })),
    sessions: z.array(
      z.strictObject({ id: z.uuid(), created_at: instant, expires_at: instant, revoked_at: instant.nullable() }),
    ),
    alerts: z.array(alertReply),
    events: z.array(alertEventReply).describe('Of alerts.'),
    webhooks: z.array(webhookRecord.omit({ secret_last4: true })),
    deliveries: z.array(deliveryReply).describe('To webhooks.'),
    portfolios: z.array(portfolioReply.extend({ entries: z.array(entryReply), ledger: z.array(transactionReply) })),
    audit_entries: z.array(
      z.strictObject({
        at: instant,
        kind: z.string(),
        key_id: z.uuid().nullable(),
        address: z.string().nullable().describe('Of the client; a pseudonym after 30 days.'),
        detail: z.record(z.string(), z.unknown()),
      }),
    ),
  })
  .meta({
    example: {
      generated_at: AT,
      account: {
        ...example(accountReply),
        identities: [{ issuer: 'https://id.example.com', subject: '248289761001', created_at: AT }],
      },
      keys: [{ ...example(keyReply).key, revoked_at: null }],
      sessions: [{ id: example(accountReply).id, created_at: AT, expires_at: AT, revoked_at: null }],
      alerts: [example(alertReply)],
      events: example(alertEventsReply).events,
      webhooks: [exampleWebhook],
      deliveries: [example(deliveryReply)],
      portfolios: [{ ...example(portfolioReply), entries: [example(entryReply)], ledger: [example(transactionReply)] }],
      audit_entries: [{ at: AT, kind: 'session.opened', key_id: null, address: '192.0.2.7', detail: {} }],
    },
  })
