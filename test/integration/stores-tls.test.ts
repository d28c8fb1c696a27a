/**
 * There were no settings for ClickHouse. node-postgres takes `require` and `verify-ca` for `verify-full`, and reads certificates once.
 */
import { once } from 'node:events'
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { openReader, openWriter } from '#infra/clickhouse/clickhouse.ts'
import { type Database, openDatabase } from '#infra/postgres/pool.ts'
import { completeClickhouseAddress } from '#infra/runtime/clickhouse-address.ts'
import { Refused } from '#infra/runtime/refused.ts'
import { cacheDirectory } from '#infra/stack/downloads.ts'
import { type Certificates, provideCertificates, signCertificate } from '#test/harness/certificates.ts'
import { within } from '#test/harness/eventually.ts'
import { type OwnRedis, openOwnRedis } from '#test/harness/own-redis.ts'
import { type OwnServer, openOwnServer } from '#test/harness/own-server.ts'
import { openTlsProxy, type TlsProxy } from '#test/harness/tls-proxy.ts'
import { useServers } from '#test/harness/use-servers.ts'

const UNAVAILABLE = 69

describe('stores by TLS', () => {
  const platform = useServers()
  const context = {
    cacheDir: cacheDirectory(process.env),
    environment: process.env,
    say: () => undefined,
    signal: new AbortController().signal,
  }
  const ends: (() => unknown)[] = []
  let folder: string
  let ours: Certificates
  let other: Certificates
  let postgres: OwnServer
  let clickhouse: TlsProxy
  let redis: OwnRedis
  /** The same Postgres by an address that its certificate does not name. */
  let unnamed: Server

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'marketlog-tls-'))
    ends.push(() => rmSync(folder, { recursive: true, force: true }))
    ours = await provideCertificates(context, join(folder, 'ours'))
    other = await provideCertificates(context, join(folder, 'other'))
    postgres = await openOwnServer('postgres', { tls: ours })
    ends.push(() => postgres.close())
    redis = await openOwnRedis()
    ends.push(() => redis.close())
    clickhouse = await openTlsProxy(platform.config.servers.clickhouse, ours)
    ends.push(() => clickhouse.close())
    const { port } = new URL(postgresUrl())
    unnamed = createServer(near => {
      const far = connect(Number(port), '127.0.0.1')
      for (const socket of [near, far]) socket.on('error', () => undefined)
      near.pipe(far).pipe(near)
    }).listen(0, '127.0.0.2')
    await once(unnamed, 'listening')
    ends.push(() => unnamed.close())
  })
  after(async () => {
    for (const end of ends.reverse()) await end()
  })

  const postgresUrl = (): string => postgres.addresses.postgres as string
  const unnamedUrl = (): string => {
    const url = new URL(postgresUrl())
    url.host = `127.0.0.2:${(unnamed.address() as AddressInfo).port}`
    return url.href
  }
  const signed = (name: string, days: number) => signCertificate(context, join(folder, 'ours'), { name, days })
  const opened = (url: string): Database => {
    const database = openDatabase(url, { name: 'tls', log: platform.log, connections: 1 })
    ends.push(() => database.close())
    return database
  }
  /** Whether the session has TLS; the refusal when it is refused. */
  async function sessionOf(database: Database): Promise<boolean | string> {
    const asked = database.rows<{ ssl: boolean }>('SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()')
    return asked.then(
      ([row]) => row?.ssl ?? false,
      error => (error instanceof Refused ? error.message.replace(/ at .* is/, ' is') : String(error)),
    )
  }
  const session = (parameters: string, url = postgresUrl()) => sessionOf(opened(`${url}?${parameters}`))

  it('are reached as sslmode has it, whose default is TLS where a file is named', async () => {
    expect(await session('')).to.equal(false)
    expect(await session('sslmode=disable')).to.equal(false)
    expect(await session('sslmode=require')).to.equal(true)
    expect(await session('sslmode=require', platform.config.servers.postgres)).to.match(/does not support SSL/)
    expect(await session(`sslrootcert=${ours.ca}`)).to.equal(true)
  })

  it('judges the authority from verify-ca on, or where one is named, and the name at verify-full', async () => {
    const refused = /^the certificate of Postgres is not accepted \(.*\); check its dates .* DATABASE_TLS_CA$/
    for (const mode of ['require', 'verify-ca']) {
      expect(await session(`sslmode=${mode}&sslrootcert=${ours.ca}`, unnamedUrl())).to.equal(true)
      expect(await session(`sslmode=${mode}&sslrootcert=${other.ca}`)).to.match(refused)
    }
    expect(await session(`sslmode=verify-full&sslrootcert=${ours.ca}`)).to.equal(true)
    expect(await session(`sslmode=verify-full&sslrootcert=${ours.ca}`, unnamedUrl())).to.match(/ALTNAME_INVALID/)
    expect(await session('sslmode=verify-full')).to.match(refused)
  })

  it('shows a certificate of its own, and says when that is not accepted', async () => {
    const [own, expired] = [await signed('client', 1), await signed('expired-client', -1)]
    const files = (pem: { key: string; certificate: string }) =>
      `sslrootcert=${ours.ca}&sslcert=${pem.certificate}&sslkey=${pem.key}`
    expect(await session(files(own))).to.equal(true)
    expect(await session(files(expired))).to.match(/does not accept this client's certificate/)
  })

  it('reads an authority again for each connection', async () => {
    const file = join(folder, 'authority.pem')
    copyFileSync(ours.ca, file)
    const database = opened(`${postgresUrl()}?sslrootcert=${file}`)
    expect(await sessionOf(database)).to.equal(true)
    copyFileSync(other.ca, file)
    // The session that is open goes on; one that ends itself is followed by another.
    await database.rows('SELECT pg_terminate_backend(pg_backend_pid())').catch(() => undefined)
    expect(await sessionOf(database)).to.match(/is not accepted/)
    copyFileSync(ours.ca, file)
    expect(await sessionOf(database)).to.equal(true)
  })

  it('has tables read and written by https, with certificates that may be replaced', async () => {
    const { servers } = platform.config
    const file = join(folder, 'tables.pem')
    copyFileSync(ours.ca, file)
    const addressOf = (url: string) =>
      completeClickhouseAddress(url, { tls: { ca: file, certificate: undefined, key: undefined }, cluster: undefined })
    const writer = openWriter(addressOf(clickhouse.urlOf(servers.clickhouse)), { database: 'default', name: 'tls' })
    const table = `tls_${platform.namespace.replace('.', '')}`
    await writer.command(`CREATE TABLE ${table} (a UInt8) ENGINE = MergeTree ORDER BY a`)
    await writer.insert({ table, columns: ['a'], rows: ['[7]'] })
    expect(await writer.rows(`SELECT a FROM ${table}`)).to.deep.equal([{ a: 7 }])
    await writer.command(`DROP TABLE ${table}`)
    await writer.close()
    expect(clickhouse.secured()).to.be.above(0)
    copyFileSync(other.ca, file)
    const reader = openReader(addressOf(clickhouse.urlOf(servers.clickhouse)), { database: 'default', name: 'tls' })
    const refused = await reader.rows('SELECT 1').catch((error: Error) => error)
    expect(refused)
      .to.be.an.instanceOf(Refused)
      .with.property('message')
      .that.matches(/CLICKHOUSE_TLS_CA/)
    copyFileSync(ours.ca, file)
    expect(await reader.rows('SELECT 1 AS one')).to.deep.equal([{ one: 1 }])
    await reader.close()
  })

  it('has tables read with a certificate where one is asked for', async () => {
    const pem = await signed('reader', 1)
    const asking = await openTlsProxy(platform.config.servers.clickhouse, ours, ours.ca)
    ends.push(() => asking.close())
    const tls = { ca: ours.ca, ...pem }
    const url = asking.urlOf(platform.config.servers.clickhouse)
    const reader = openReader(completeClickhouseAddress(url, { tls, cluster: undefined }), {
      database: 'default',
      name: 'tls',
    })
    expect(await reader.rows('SELECT 1 AS one')).to.deep.equal([{ one: 1 }])
    await reader.close()
  })

  /** Runs a role until it ends for a reason; what it logged above information is that one line. */
  async function refused(changes: Record<string, string>, line: RegExp): Promise<void> {
    const role = await platform.spawnRole('book', { ...platform.environment, LOG_LEVEL: 'warn', ...changes })
    role.expectEnd(line)
    const { code } = await within(role.ended, 'the role to end')
    expect(role.lines().slice(1)).to.deep.equal([])
    expect(role.lines()[0]).to.match(line)
    expect(code).to.equal(UNAVAILABLE)
    for (const { password } of [new URL(postgresUrl()), new URL(platform.config.servers.clickhouse)])
      expect(role.lines()[0]).not.to.contain(password)
  }
  const clickhouseUrls = (url: string) => ({ CLICKHOUSE_URL: url, CLICKHOUSE_READONLY_URL: url })

  it('end a role with one line when their authority is another', async () => {
    await refused(
      { DATABASE_URL: postgresUrl(), DATABASE_TLS_CA: other.ca },
      /certificate of Postgres at 127.0.0.1:\d+ is not accepted \(.*\); .*DATABASE_TLS_CA/,
    )
    const url = clickhouse.urlOf(platform.config.servers.clickhouse)
    await refused(
      { ...clickhouseUrls(url), CLICKHOUSE_TLS_CA: other.ca },
      /certificate of ClickHouse is not accepted \(.*\); .*CLICKHOUSE_TLS_CA/,
    )
    await refused(
      { ...redis.variables, REDIS_TLS_CA: other.ca },
      /certificate of Redis at 127.0.0.1:\d+ is not accepted \(.*\); .*REDIS_TLS_CA/,
    )
  })

  it('end a role with one line when their certificate has expired', async () => {
    const pem = await signed('expired', -1)
    const expired = await openOwnServer('postgres', { tls: { ca: ours.ca, ...pem } })
    ends.push(() => expired.close())
    await refused(
      { DATABASE_URL: expired.addresses.postgres as string, DATABASE_TLS_CA: ours.ca },
      /certificate of Postgres at .* is not accepted \(CERT_HAS_EXPIRED\)/,
    )
    const proxy = await openTlsProxy(platform.config.servers.clickhouse, pem)
    ends.push(() => proxy.close())
    const url = proxy.urlOf(platform.config.servers.clickhouse)
    await refused(
      { ...clickhouseUrls(url), CLICKHOUSE_TLS_CA: ours.ca },
      /certificate of ClickHouse is not accepted \(CERT_HAS_EXPIRED\)/,
    )
    const before = await openTlsProxy(`redis://127.0.0.1:${redis.server.port}`, pem)
    ends.push(() => before.close())
    await refused(
      { ...redis.variables, REDIS_URL: `rediss://127.0.0.1:${before.port}`, REDIS_TLS_CA: ours.ca },
      /certificate of Redis at 127.0.0.1:\d+ is not accepted \(CERT_HAS_EXPIRED\)/,
    )
  })

  it('end a role with one line when a password is wrong', async () => {
    const wrong = postgresUrl().replace(new URL(postgresUrl()).password, 'wrong')
    await refused(
      { DATABASE_URL: wrong, DATABASE_TLS_CA: ours.ca },
      /Postgres at .* refuses the credentials \(28P01\); .*DATABASE_URL/,
    )
    const { clickhouse: plain } = platform.config.servers
    const url = clickhouse.urlOf(plain.replace(new URL(plain).password, 'wrong'))
    await refused(
      { ...clickhouseUrls(url), CLICKHOUSE_TLS_CA: ours.ca },
      /ClickHouse refuses the credentials \(516\); .*CLICKHOUSE_URL/,
    )
  })
})
