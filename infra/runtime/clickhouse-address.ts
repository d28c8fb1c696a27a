/**
 * Addresses of ClickHouse: URLs of one or several replicas, the certificate files of `https:`, and the cluster that tables are made on.
 *
 * All of it is one text, `https://user:password@host:8443/database?tls_ca=…`; further replicas follow after commas. Pure: the
 * files are named, not read.
 */
import type { TlsFiles } from './tls-files.ts'

/** An address, taken apart. */
export interface ClickhouseAddress {
  /** Of the first replica; its user and password are those of all. */
  url: URL
  /** All of them, in the order in which they are tried. */
  replicas: readonly { host: string; port: number }[]
  isTls: boolean
  tls: TlsFiles
  cluster: string | undefined
}

const FILES = { ca: 'tls_ca', certificate: 'tls_cert', key: 'tls_key' } as const
const CLUSTER = 'cluster'
/** It becomes part of statements. */
const CLUSTER_FORM = /^[A-Za-z_][A-Za-z0-9_-]*$/
const PORTS: Record<string, number> = { 'http:': 80, 'https:': 443 }

/** Takes an address apart; throws a line without the password when it is none. */
export function parseClickhouseAddress(address: string): ClickhouseAddress {
  const texts = address.split(',').map(text => text.trim())
  if (!texts.every(text => URL.canParse(text))) throw new Error('must be http(s)://user:password@host:port')
  const urls = texts.map(text => new URL(text))
  const [url] = urls as [URL]
  if (PORTS[url.protocol] === undefined) throw new Error('must be an http or https URL')
  if (urls.some(({ protocol }) => protocol !== url.protocol)) throw new Error('must not mix http and https')
  const [ca, certificate, key] = Object.values(FILES).map(name => url.searchParams.get(name) ?? undefined)
  const isTls = url.protocol === 'https:'
  if (!isTls && [ca, certificate, key].some(file => file !== undefined))
    throw new Error('must be an https URL, since certificate files are named')
  const cluster = url.searchParams.get(CLUSTER) ?? undefined
  if (cluster !== undefined && !CLUSTER_FORM.test(cluster))
    throw new Error('must have a cluster of letters, digits, dashes and underscores')
  const replicas = urls.map(({ hostname, port, protocol }) => ({
    host: hostname.replace(/^\[(.+)\]$/, '$1'),
    port: Number(port || PORTS[protocol]),
  }))
  return { url, replicas, isTls, tls: { ca, certificate, key }, cluster }
}

/** The address with what the environment names beside it; throws as {@link parseClickhouseAddress} does. */
export function completeClickhouseAddress(
  address: string,
  { tls, cluster }: { tls: TlsFiles | undefined; cluster: string | undefined },
): string {
  const [first = '', ...others] = address.split(',')
  if (!URL.canParse(first.trim()) || (tls === undefined && cluster === undefined)) {
    parseClickhouseAddress(address)
    return address
  }
  const url = new URL(first.trim())
  for (const [part, name] of Object.entries(FILES) as [keyof TlsFiles, string][]) {
    const file = tls?.[part]
    if (file !== undefined && !url.searchParams.has(name)) url.searchParams.set(name, file)
  }
  if (cluster !== undefined && !url.searchParams.has(CLUSTER)) url.searchParams.set(CLUSTER, cluster)
  const complete = [url.href, ...others].join(',')
  parseClickhouseAddress(complete)
  return complete
}
