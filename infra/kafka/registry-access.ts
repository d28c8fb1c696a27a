/**
 * TLS and credentials of every request to the schema registry.
 *
 * The authority and the secrets are read when they are used: new files are in force without a restart.
 */
import { readFileSync } from 'node:fs'
import { type ClientRequest, type IncomingMessage, request as requestPlain } from 'node:http'
import { Agent, request as requestTls } from 'node:https'
import { text } from 'node:stream/consumers'
import { type ConnectionOptions, connect } from 'node:tls'
import type { RegistrySettings } from '../runtime/kafka-settings.ts'

/** Where the registry is and how it is reached. */
export interface RegistryAddress {
  url: string
  settings: RegistrySettings
}

/** The header that proves the caller; none where no credentials are set. */
export function authorizationOf({ basic, token }: RegistrySettings): Record<string, string> {
  if (token !== undefined) return { authorization: `Bearer ${token()}` }
  if (basic === undefined) return {}
  return { authorization: `Basic ${Buffer.from(`${basic.user}:${basic.password()}`).toString('base64')}` }
}

/** An agent that trusts the authority of the settings; undefined where the system's is meant. */
export function agentOf({ ca }: RegistrySettings): Agent | undefined {
  if (ca === undefined) return undefined
  const agent = new Agent({ keepAlive: true })
  // The agent's own function keeps what it was made with.
  agent.createConnection = options => connect({ ...(options as ConnectionOptions), ca: readFileSync(ca) })
  return agent
}

/** Puts JSON to a path of the registry; throws what it answers unless that is success. */
export async function putJson(address: RegistryAddress, path: string, body: object, limitMs: number): Promise<void> {
  const { url, settings } = address
  const target = new URL(`${url.replace(/\/+$/, '')}${path}`)
  const isTls = target.protocol === 'https:'
  const options = {
    method: 'PUT',
    headers: { 'content-type': 'application/json', ...authorizationOf(settings) },
    signal: AbortSignal.timeout(limitMs),
    agent: isTls ? agentOf(settings) : undefined,
  }
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    const asked: ClientRequest = (isTls ? requestTls : requestPlain)(target, options, resolve)
    asked.once('error', reject)
    asked.end(JSON.stringify(body))
  })
  const reply = await text(answer)
  if (answer.statusCode !== 200)
    throw Object.assign(new Error(`the schema registry answers ${answer.statusCode} to ${path}: ${reply}`), {
      status: answer.statusCode,
    })
}
