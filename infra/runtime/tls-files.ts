/**
 * PEM files that a client proves itself and judges servers by. They are read when a connection is opened, so that new files are in
 * force without a restart.
 */
import { existsSync, readFileSync } from 'node:fs'
import type { Environment } from './secret.ts'

/** PEM files; without an authority those of the system are trusted. */
export interface TlsFiles {
  ca: string | undefined
  certificate: string | undefined
  key: string | undefined
}

export function readTlsFiles({ ca, certificate, key }: TlsFiles): { ca?: Buffer; cert?: Buffer; key?: Buffer } {
  return {
    ...(ca === undefined ? {} : { ca: readFileSync(ca) }),
    ...(certificate === undefined ? {} : { cert: readFileSync(certificate) }),
    ...(key === undefined ? {} : { key: readFileSync(key) }),
  }
}

/** The files that `<prefix>_CA`, `<prefix>_CERT` and `<prefix>_KEY` name; undefined where none is named. Faults name the variable. */
export function readTlsFileNames(env: Environment, prefix: string, faults: string[]): TlsFiles | undefined {
  const [ca, certificate, key] = ['CA', 'CERT', 'KEY'].map(part => readFileName(env, `${prefix}_${part}`, faults))
  if ((certificate === undefined) !== (key === undefined)) faults.push(`${prefix}_CERT and ${prefix}_KEY go together`)
  return ca === undefined && certificate === undefined && key === undefined ? undefined : { ca, certificate, key }
}

/** The file that a variable names; a fault when there is none of that name. */
export function readFileName(env: Environment, name: string, faults: string[]): string | undefined {
  const file = env[name] || undefined
  if (file !== undefined && !existsSync(file)) faults.push(`${name} names no file: ${file}`)
  return file
}
