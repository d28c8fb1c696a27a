/** All that an account holds, as one document. Rules: DECISIONS.md, "Export and deletion". Nothing in it opens anything. */
import { z } from 'zod'
import { keyInfo } from './account-keys.ts'
import { alertEventReply, alertReply } from './alerts.ts'
import { entryReply, portfolioReply } from './portfolios.ts'
import { instant } from './reply-values.ts'
import { accountReply } from './sign-in.ts'
import { transactionReply } from './transactions.ts'
import { deliveryReply, webhookRecord } from './webhooks.ts'

const at = instant.meta({ example: '2026-03-01T09:00:00.000Z' })

export const accountExport = z.strictObject({
  generated_at: at,
  account: accountReply.extend({
    identities: z
      .array(
        z.strictObject({
          issuer: z.string().meta({ example: 'https://id.example.com' }),
          subject: z.string().meta({ example: '248289761001' }),
          created_at: at,
        }),
      )
      .describe('Who may sign in.'),
  }),
  keys: z.array(keyInfo.extend({ revoked_at: instant.nullable() })),
  sessions: z.array(
    z.strictObject({ id: accountReply.shape.id, created_at: at, expires_at: at, revoked_at: instant.nullable() }),
  ),
  alerts: z.array(alertReply),
  events: z.array(alertEventReply).describe('Of alerts.'),
  webhooks: z.array(webhookRecord.omit({ secret_last4: true })),
  deliveries: z.array(deliveryReply).describe('To webhooks.'),
  portfolios: z.array(portfolioReply.extend({ entries: z.array(entryReply), ledger: z.array(transactionReply) })),
  audit_entries: z.array(
    z.strictObject({
      at,
      kind: z.string().meta({ example: 'session.opened' }),
      key_id: z.uuid().nullable(),
      address: z
        .string()
        .nullable()
        .meta({ description: 'Of the client; a pseudonym after 30 days.', example: '192.0.2.7' }),
      detail: z.record(z.string(), z.unknown()).meta({ example: {} }),
    }),
  ),
})
