/**
 * `marketlog acls`: prints the rights that roles need, and grants them on request.
 *
 * Writes JSON lines, and to the cluster only on request. It prints exactly what it grants.
 */
import type { Writable } from 'node:stream'
import { applyAcls } from '#infra/kafka/acls.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { CommandFailure, exitCodes } from './command-failure.ts'
import { aclRoles, aclsOf } from './role-acls.ts'

/** The options of the command. */
export interface AclOptions {
  roles: readonly string[]
  /** `{role}` is replaced by the role's name. */
  principal: string
  apply: boolean
}

/** Prints a JSON line for each right, and grants them all in the cluster on request. */
export async function showAcls(config: PlatformConfig, log: Log, options: AclOptions, out: Writable): Promise<void> {
  const unknown = options.roles.filter(role => !aclRoles.includes(role))
  if (unknown.length > 0)
    throw new CommandFailure(
      `no role ${unknown.join(', ')} reaches the log. There are ${aclRoles.join(', ')}`,
      exitCodes.usage,
    )
  const roles = options.roles.length > 0 ? options.roles : aclRoles
  const acls = roles.flatMap(role => aclsOf(role, config.namespace, options.principal.replaceAll('{role}', role)))
  if (options.apply) await applyAcls(connectKafka({ config, role: 'acls', log }), acls)
  for (const { principal, resource, name, isPrefix, operation } of acls)
    out.write(
      `${JSON.stringify({ principal, operation, resource, pattern: isPrefix ? 'PREFIXED' : 'LITERAL', name })}\n`,
    )
}
