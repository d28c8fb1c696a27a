/**
 * Certificates of servers on this machine: an authority of a folder's own, and what it signs for loopback.
 */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ToolContext } from '#infra/stack/native/native-server.ts'
import { runTool } from '#infra/stack/one-shot.ts'
import { replaceFile } from '#infra/stack/processes.ts'
import { installPackages } from '#infra/stack/system-packages.ts'

export interface Certificates {
  ca: string
  /** Key and certificate of loopback in one file, as Kafka's PEM key store wants it. */
  keyStore: string
  /** The same in a file each. */
  key: string
  certificate: string
}

const OPENSSL_LIMIT_MS = 30_000
const VALID_DAYS = 3_650
const CURVE = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']

/**
 * The certificates of a folder: an authority of their own and one for loopback, signed by it. Makes them when it has none: the
 * mark of a finished set is written last. The authority's key stays beside them, so that a client certificate can be made later.
 */
export async function provideCertificates(context: ToolContext, folder: string): Promise<Certificates> {
  const [ca, keyStore, key, certificate] = ['ca.pem', 'broker.pem', 'broker.key', 'broker.crt'].map(name =>
    join(folder, name),
  ) as [string, string, string, string]
  const files = { ca, keyStore, key, certificate }
  const mark = join(folder, 'made')
  if (existsSync(mark)) return files
  await provideOpenssl(context)
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const authority = ['-x509', ...CURVE, '-days', String(VALID_DAYS), '-subj', '/CN=marketlog development authority']
  await openssl(context, ['req', ...authority, '-keyout', join(folder, 'ca.key'), '-out', files.ca])
  const pem = await signCertificate(context, folder, { name: 'broker', days: VALID_DAYS })
  replaceFile(files.keyStore, readFileSync(pem.key, 'utf8') + readFileSync(pem.certificate, 'utf8'), 0o600)
  replaceFile(mark, '')
  return files
}

/** A key and a certificate for loopback that the authority of a folder signs; negative days make one that has expired. */
export async function signCertificate(
  context: Pick<ToolContext, 'environment' | 'signal'>,
  folder: string,
  wanted: { name: string; days: number },
): Promise<{ key: string; certificate: string }> {
  const file = (ending: string) => join(folder, `${wanted.name}.${ending}`)
  const [key, certificate] = [file('key'), file('crt')]
  writeFileSync(file('ext'), 'subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth,clientAuth\n')
  await openssl(context, ['req', ...CURVE, '-subj', `/CN=${wanted.name}`, '-keyout', key, '-out', file('csr')])
  const authority = ['-CA', join(folder, 'ca.pem'), '-CAkey', join(folder, 'ca.key'), '-CAcreateserial']
  const validity = ['-days', String(wanted.days), '-extfile', file('ext')]
  await openssl(context, ['x509', '-req', '-in', file('csr'), ...authority, ...validity, '-out', certificate])
  return { key, certificate }
}

/** Looks for openssl, or has its package installed. */
async function provideOpenssl(context: ToolContext): Promise<string> {
  const find = (): Promise<string | undefined> => openssl(context, ['version']).catch(() => undefined)
  const problem = 'openssl is needed to make certificates'
  return (await find()) ?? installPackages(context, ['openssl'], problem, find)
}

function openssl(context: Pick<ToolContext, 'environment' | 'signal'>, args: string[]): Promise<string> {
  return runTool({
    command: 'openssl',
    args,
    environment: context.environment,
    limitMs: OPENSSL_LIMIT_MS,
    signal: context.signal,
  })
}
