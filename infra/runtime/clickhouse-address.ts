/**
 * Addresses of ClickHouse: a URL, the certificate files of `https:`, and the cluster that tables are made on.
 *
 * All of it is one text, `https://user:password@host:8443/database?tls_ca=…`. Pure: the files are named, not read.
 */
import type { TlsFiles } from './tls-files.ts'

export interface ClickhouseAddress {
  url: URL
  isTls: boolean
  tls: TlsFiles
  cluster: string | undefined
}

const FILES = { ca: 'tls_ca', certificate: 'tls_cert', key: 'tls_key' } as const
const CLUSTER = 'cluster'
/** It becomes part of statements. */
const CLUSTER_FORM = /^[A-Za-z_][A-Za-z0-9_-]*$/

/** Takes an address apart; throws a line without the password when it is none. */
export function parseClickhouseAddress(address: string): ClickhouseAddress {
  const url = URL.canParse(address) ? new URL(address) : undefined
  // Of several addresses a URL makes one host and path.
  if (url === undefined || `${url.host}${url.pathname}`.includes(','))
    throw new Error('must be http(s)://user:password@host:port, of one host')
  const isTls = url.protocol === 'https:'
  if (!isTls && url.protocol !== 'http:') throw new Error('must be an http or https URL')
  const [ca, certificate, key] = Object.values(FILES).map(name => url.searchParams.get(name) ?? undefined)
  if (!isTls && [ca, certificate, key].some(file => file !== undefined))
    throw new Error('must be an https URL, since certificate files are named')
  const cluster = url.searchParams.get(CLUSTER) ?? undefined
  if (cluster !== undefined && !CLUSTER_FORM.test(cluster))
    throw new Error('must have a cluster of letters, digits, dashes and underscores')
  return { url, isTls, tls: { ca, certificate, key }, cluster }
}

/** The address with what the environment names beside it; throws as {@link parseClickhouseAddress} does. */
export function completeClickhouseAddress(
  address: string,
  { tls, cluster }: { tls: TlsFiles | undefined; cluster: string | undefined },
): string {
  const { url } = parseClickhouseAddress(address)
  for (const [part, name] of Object.entries(FILES) as [keyof TlsFiles, string][]) {
    const file = tls?.[part]
    if (file !== undefined && !url.searchParams.has(name)) url.searchParams.set(name, file)
  }
  if (cluster !== undefined && !url.searchParams.has(CLUSTER)) url.searchParams.set(CLUSTER, cluster)
  const complete = tls === undefined && cluster === undefined ? address : url.href
  parseClickhouseAddress(complete)
  return complete
}
