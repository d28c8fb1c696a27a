/**
 * Finds and ends the platform of a run directory, however it was started and whatever became of it.
 *
 * Reads the owner's identity that the supervisor noted. Invariant: only processes whose identity matches what was
 * noted are ended; when it returns, none of them runs.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { endNotedProcesses } from '#infra/stack/owner.ts'
import { endProcess, isAlive, type ProcessIdentity, readJson } from '#infra/stack/processes.ts'
import { removeServerData, stopLeftovers } from '#infra/stack/servers.ts'
import { dropAnnouncements, type RunDirectory } from './run-directory.ts'

const GRACE_MS = 60_000

/** The live process that runs a platform from this directory. */
export function runningSupervisor(directory: RunDirectory): ProcessIdentity | undefined {
  const owner = readJson<ProcessIdentity>(join(directory.supervisor, 'owner.json'))
  return owner !== undefined && isAlive(owner) ? owner : undefined
}

/** Ends the platform and whatever an earlier run has left; returns what was ended. */
export async function endPlatform(directory: RunDirectory): Promise<string[]> {
  const owner = runningSupervisor(directory)
  if (owner !== undefined) await endProcess(owner, 'SIGTERM', GRACE_MS)
  const roles = await endNotedProcesses(directory.supervisor)
  const servers = await stopLeftovers(directory.servers)
  dropAnnouncements(directory)
  return [...(owner === undefined ? [] : ['the platform']), ...roles, ...servers]
}

/** Ends the platform and removes its data, logs and keys; data of servers that were given by address stays. */
export async function wipePlatform(directory: RunDirectory): Promise<void> {
  await endPlatform(directory)
  await removeServerData(directory.servers)
  for (const path of [
    directory.supervisor,
    directory.state,
    directory.logs,
    directory.keysFile,
    directory.cursorKeyFile,
    directory.secretKeyFile,
    directory.mails,
  ]) {
    rmSync(path, { recursive: true, force: true })
  }
}
