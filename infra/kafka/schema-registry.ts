/** The schema registry: how it is reached, and the registration of all events by the set-up step. */
import { readFileSync } from 'node:fs'
import { Agent } from 'node:https'
import { type ConnectionOptions, connect } from 'node:tls'
import { COMPATIBILITY, SchemaRegistry, SchemaType } from '@kafkajs/confluent-schema-registry'
import pRetry from 'p-retry'
import { subjectOf } from '#schemas/events/event.ts'
import { allTopics } from '#schemas/topics.ts'
import type { RegistrySettings } from '../runtime/kafka-settings.ts'

const REGISTRY_TIMEOUT_MS = 5_000

/** The client repeats GET alone, and looks schemas up by POST: one lost answer ended a start. Some 3 seconds, and the limit of each call. */
const ASKED_AGAIN = { retries: 5, minTimeout: 100, factor: 2 }
/** The status that the client gives a connection that broke. */
const LOST = 400

export const askAgain = <T>(ask: () => Promise<T>): Promise<T> =>
  pRetry(ask, {
    ...ASKED_AGAIN,
    shouldRetry({ error }) {
      const { status = LOST } = error as { status?: number }
      return status === LOST || status >= 500
    },
  })

export const isNotFound = (error: unknown): boolean => (error as { status?: number }).status === 404

/** Registers every event of the catalogue with FULL_TRANSITIVE compatibility; for the set-up step alone. */
export async function registerSchemas(options: { registry: RegistryAddress; namespace: string }): Promise<void> {
  const registry = openRegistry(options.registry)
  const { Subject } = (registry as unknown as { api: { Subject: { updateConfig(request: object): Promise<unknown> } } })
    .api
  const compatibility = COMPATIBILITY.FULL_TRANSITIVE
  // One after the other: parallel first registrations race in the registry's store.
  for (const event of new Set(allTopics.flatMap(topic => [...topic.events]))) {
    const subject = options.namespace + subjectOf(event)
    // Before the first version: the registry's own default is NONE, under which anything may follow.
    await askAgain(() => Subject.updateConfig({ subject, body: { compatibility } }))
    const schema = { type: SchemaType.AVRO, schema: JSON.stringify(event.avro) } as const
    await askAgain(() => registry.register(schema, { subject, compatibility }))
  }
}

export function openRegistry({ url, settings }: RegistryAddress): SchemaRegistry {
  const agent = agentOf(settings)
  return new SchemaRegistry({
    host: url,
    middlewares: [requestMiddleware(settings)],
    retry: { maxRetryTimeInSecs: 5, initialRetryTimeInSecs: 0.1, factor: 0.2, multiplier: 2, retries: 5 },
    ...(agent === undefined ? {} : { agent }),
  } as ConstructorParameters<typeof SchemaRegistry>[0])
}

/** The client itself sets no limit on a call, and keeps the credentials that it was made with. */
const requestMiddleware = (settings: RegistrySettings) => () => ({
  prepareRequest: async (next: () => Promise<{ enhance(extra: object): unknown }>) =>
    (await next()).enhance({ timeout: REGISTRY_TIMEOUT_MS, headers: authorizationOf(settings) }),
})

export interface RegistryAddress {
  url: string
  settings: RegistrySettings
}

function authorizationOf({ basic, token }: RegistrySettings): Record<string, string> {
  if (token !== undefined) return { authorization: `Bearer ${token()}` }
  if (basic === undefined) return {}
  return { authorization: `Basic ${Buffer.from(`${basic.user}:${basic.password()}`).toString('base64')}` }
}

/**
 * An agent that trusts the authority of the settings; undefined where the system's is meant. Authority and secrets are read when
 * they are used: new files are in force without a restart.
 */
function agentOf({ ca }: RegistrySettings): Agent | undefined {
  if (ca === undefined) return undefined
  const agent = new Agent({ keepAlive: true })
  // The agent's own function keeps what it was made with.
  agent.createConnection = options => connect({ ...(options as ConnectionOptions), ca: readFileSync(ca) })
  return agent
}
