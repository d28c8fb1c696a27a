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
import { readJson, replaceFile } from '#infra/stack/processes.ts'

/** Where a service answers clients, and its operator. */
interface ServiceEntry {
  /** The process that runs it. */
  process: string
  pid: number
  url: string
  /** `/readyz` and `/metrics`. */
  operator_url: string
}

/** Content of platform.json; other tools read it. */
export interface PlatformFile {
  base_url: string
  market: string
  /** One ready key of each tier. */
  keys: Record<Tier, string>
  services: Record<string, ServiceEntry>
  servers: {
    kafka: string
    schema_registry: string
    redis: string
    clickhouse: string
    clickhouse_read_only: string
    postgres: string
  }
}

/** Paths inside a run directory. */
export interface RunDirectory {
  root: string
  /** Data, logs and notes of the native servers. */
  servers: string
  serversFile: string
  settingsFile: string
  platformFile: string
  keysFile: string
  cursorKeyFile: string
  secretKeyFile: string
  logs: string
  /** Owner and processes of the running platform. */
  supervisor: string
  state: string
  /** What the mail server for development has received. */
  mails: string
}

const OWNER_ONLY = 0o600
const CHECKOUT = fileURLToPath(new URL('../../', import.meta.url))

/** The run directory that the environment names, else `.run` of the checkout. */
export function runDirectory(environment: Record<string, string | undefined>): RunDirectory {
  const root = resolve(environment.MARKETLOG_RUN_DIR || join(CHECKOUT, '.run'))
  return {
    root,
    servers: join(root, 'servers'),
    serversFile: join(root, 'servers.json'),
    settingsFile: join(root, 'settings.json'),
    platformFile: join(root, 'platform.json'),
    keysFile: join(root, 'keys.json'),
    cursorKeyFile: join(root, 'cursor-key.json'),
    secretKeyFile: join(root, 'secret-key.json'),
    logs: join(root, 'logs'),
    supervisor: join(root, 'supervisor'),
    state: join(root, 'state'),
    mails: join(root, 'mails'),
  }
}

/** Creates the directories that a start needs. */
export function prepareRunDirectory(directory: RunDirectory): void {
  for (const path of [directory.logs, join(directory.supervisor, 'pids'), directory.state]) {
    mkdirSync(path, { recursive: true })
  }
}

/** Addresses of the servers of a running platform; undefined when none runs. */
export const readServers = (directory: RunDirectory): ServerAddresses | undefined => readJson(directory.serversFile)

/** Notes the addresses of the running servers. */
export function writeServers(directory: RunDirectory, addresses: ServerAddresses): void {
  replaceFile(directory.serversFile, `${JSON.stringify(addresses, null, 2)}\n`, OWNER_ONLY)
}

/** Digests of the settings that the running platform was started with, by name. */
export const readSettings = (directory: RunDirectory): Record<string, string> => readJson(directory.settingsFile) ?? {}

/** Notes the settings of the running platform. */
export function writeSettings(directory: RunDirectory, settings: Record<string, string>): void {
  replaceFile(directory.settingsFile, `${JSON.stringify(settings, null, 2)}\n`, OWNER_ONLY)
}

/** The running platform; undefined when none is live. */
export const readPlatform = (directory: RunDirectory): PlatformFile | undefined => readJson(directory.platformFile)

/** Announces a live platform. */
export function writePlatform(directory: RunDirectory, platform: PlatformFile): void {
  replaceFile(directory.platformFile, `${JSON.stringify(platform, null, 2)}\n`, OWNER_ONLY)
}

/** Removes the announcements. */
export function dropAnnouncements(directory: RunDirectory): void {
  rmSync(directory.platformFile, { force: true })
  rmSync(directory.serversFile, { force: true })
  rmSync(directory.settingsFile, { force: true })
}

/** Keys of an earlier run, by tier. */
export const readKeys = (directory: RunDirectory): Partial<Record<Tier, string>> => readJson(directory.keysFile) ?? {}

/** Keeps the keys for the next run. */
export function writeKeys(directory: RunDirectory, keys: Record<Tier, string>): void {
  replaceFile(directory.keysFile, `${JSON.stringify(keys, null, 2)}\n`, OWNER_ONLY)
}

/** The key that signs paging cursors here: made once, so that cursors outlive a restart. */
export const cursorKey = (directory: RunDirectory): string =>
  madeOnce(directory.cursorKeyFile, 'cursorKey', () => randomBytes(32).toString('base64url'))

/** The key that seals stored secrets here: made once; without it what was sealed cannot be read again. */
export const secretKey = (directory: RunDirectory): string =>
  madeOnce(directory.secretKeyFile, 'secretKey', newSecretKey)

function madeOnce(file: string, member: string, make: () => string): string {
  const secret = readJson<Record<string, string>>(file)?.[member]
  if (secret !== undefined) return secret
  const made = make()
  replaceFile(file, JSON.stringify({ [member]: made }), OWNER_ONLY)
  return made
}
