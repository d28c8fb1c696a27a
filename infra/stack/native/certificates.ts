/**
 * Certificates of servers that are started here: an authority of their own and one for loopback, signed by it.
 *
 * Runs openssl, writes PEM files below a folder. The authority's key stays beside them, readable to the owner alone, so that a
 * client certificate can be made later. A set is made once: the mark of a finished one is written last.
 */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { runTool } from '../one-shot.ts'
import { replaceFile } from '../processes.ts'
import { installPackages } from '../system-packages.ts'
import type { NativeContext } from './native-server.ts'

/** Files of one authority. */
interface Certificates {
  /** Certificate of the authority. */
  ca: string
  /** Key and certificate of loopback in one file, as Kafka's PEM key store wants it. */
  keyStore: string
}

const LIMIT_MS = 30_000
const VALID_DAYS = 3_650
const CURVE = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']

/** The certificates of a folder; makes them when it has none. */
export async function provideCertificates(context: NativeContext, folder: string): Promise<Certificates> {
  const files = { ca: join(folder, 'ca.pem'), keyStore: join(folder, 'broker.pem') }
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
  context: Pick<NativeContext, 'environment' | 'signal'>,
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
async function provideOpenssl(context: NativeContext): Promise<string> {
  const find = (): Promise<string | undefined> => openssl(context, ['version']).catch(() => undefined)
  const problem = 'openssl is needed to make the certificates of a cluster'
  return (await find()) ?? installPackages(context, ['openssl'], problem, find)
}

function openssl(context: Pick<NativeContext, 'environment' | 'signal'>, args: string[]): Promise<string> {
  return runTool({
    command: 'openssl',
    args,
    environment: context.environment,
    limitMs: LIMIT_MS,
    signal: context.signal,
  })
}
