/**
 * The run directory: everything that a platform on this machine leaves beside the checkout's files.
 *
 * Reads and writes `.run` (or MARKETLOG_RUN_DIR): server data, logs, the addresses of the running servers, the
 * keys of the demo accounts and `platform.json`, which exists exactly while a platform is live.
 * Invariant: a file that holds a credential is readable to its owner alone and is replaced in one step.
 */
import { randomBytes } from 'node:crypto'
import { mkdirSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Tier } from '#infra/config/tiers.ts'
import type { ServerAddresses } from '#infra/runtime/config.ts'
import { newSecretKey } from '#infra/runtime/sealed-box.ts'
import { isAlive, type ProcessIdentity, readJson, replaceFile } from '#infra/stack/processes.ts'

/** Content of platform.json; other tools read it. */
export interface PlatformFile {
  base_url: string
  market: string
  /** One ready key of each tier. */
  keys: Record<Tier, string>
  /** By role: its process, where it answers clients, and where `/readyz` and `/metrics`. */
  services: Record<string, { process: string; pid: number; url: string; operator_url: string }>
  servers: {
    kafka: string
    schema_registry: string
    redis: string
    clickhouse: string
    clickhouse_read_only: string
    postgres: string
  }
}

export type RunDirectory = ReturnType<typeof runDirectory>

const CHECKOUT = fileURLToPath(new URL('../../', import.meta.url))

export function runDirectory(environment: Record<string, string | undefined>) {
  const root = resolve(environment.MARKETLOG_RUN_DIR || join(CHECKOUT, '.run'))
  return {
    root,
    /** Data, logs and notes of the servers. */
    servers: join(root, 'servers'),
    serversFile: join(root, 'servers.json'),
    /** Digests of the settings that the running platform was started with, by name. */
    settingsFile: join(root, 'settings.json'),
    platformFile: join(root, 'platform.json'),
    keysFile: join(root, 'keys.json'),
    cursorKeyFile: join(root, 'cursor-key.json'),
    secretKeyFile: join(root, 'secret-key.json'),
    logs: join(root, 'logs'),
    /** Owner and processes of the running platform. */
    supervisor: join(root, 'supervisor'),
    state: join(root, 'state'),
    /** Received by the mail server for development. */
    mails: join(root, 'mails'),
  }
}

export function prepareRunDirectory(directory: RunDirectory): void {
  for (const path of [directory.logs, join(directory.supervisor, 'pids'), directory.state]) {
    mkdirSync(path, { recursive: true })
  }
}

export function writePrivate(file: string, content: object): void {
  replaceFile(file, `${JSON.stringify(content, null, 2)}\n`, 0o600)
}

export function runningSupervisor(directory: RunDirectory): ProcessIdentity | undefined {
  const owner = readJson<ProcessIdentity>(join(directory.supervisor, 'owner.json'))
  return owner !== undefined && isAlive(owner) ? owner : undefined
}

/** Addresses of the servers of a running platform; those that a killed one has left are of no server. */
export const readServers = (directory: RunDirectory): ServerAddresses | undefined =>
  runningSupervisor(directory) && readJson(directory.serversFile)

export const readPlatform = (directory: RunDirectory): PlatformFile | undefined => readJson(directory.platformFile)

export function dropAnnouncements({ platformFile, serversFile, settingsFile }: RunDirectory): void {
  for (const file of [platformFile, serversFile, settingsFile]) rmSync(file, { force: true })
}

/** The key that signs paging cursors here: made once, so that cursors outlive a restart. */
export const cursorKey = (directory: RunDirectory): string =>
  madeOnce(directory.cursorKeyFile, 'cursorKey', () => randomBytes(32).toString('base64url'))

/** The key that seals stored secrets here: made once; without it what was sealed cannot be read again. */
export const secretKey = (directory: RunDirectory): string =>
  madeOnce(directory.secretKeyFile, 'secretKey', newSecretKey)

function madeOnce(file: string, member: string, make: () => string): string {
  const storedSecret = readJson<Record<string, string>>(file)?.[member]
  if (storedSecret !== undefined) return storedSecret
  const newSecret = make()
  writePrivate(file, { [member]: newSecret })
  return newSecret
}
