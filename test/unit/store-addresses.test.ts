/** node-postgres read `require` and `verify-ca` as `verify-full`, and passed over in silence what it does not know. */
import { expect } from 'chai'
import { createTable, onCluster } from '#infra/clickhouse/table.ts'
import { completeClickhouseAddress, parseClickhouseAddress } from '#infra/runtime/clickhouse-address.ts'
import { readConfig } from '#infra/runtime/config.ts'
import {
  completePostgresAddress,
  databaseOf,
  parsePostgresAddress,
  withDatabase,
} from '#infra/runtime/postgres-address.ts'
import { settleEnvironment } from '#services/cli/settle-environment.ts'
import { VIEWS } from '#streams/views.ts'

const FILE = import.meta.filename
const SERVERS = {
  KAFKA_BROKERS: 'localhost:9092',
  SCHEMA_REGISTRY_URL: 'http://localhost:8081',
  REDIS_URL: 'redis://localhost',
  CLICKHOUSE_URL: 'http://localhost:8123',
  DATABASE_URL: 'postgres://localhost/marketlog',
}
const serversOf = (changes: Record<string, string>) => readConfig({ ...SERVERS, ...changes }).servers

describe('an address of Postgres', () => {
  it('has a URL without what node-postgres would read otherwise', () => {
    const given = 'postgresql://me:p%40ss@[::1]:5433/log?sslmode=require&application_name=x'
    expect(parsePostgresAddress(given)).to.deep.equal({
      url: 'postgresql://me:p%40ss@[::1]:5433/log?application_name=x',
      sslMode: 'require',
      isPooled: false,
      tls: { ca: undefined, certificate: undefined, key: undefined },
    })
  })

  it('keeps one that node-postgres has understood so far', () => {
    for (const url of ['postgres://localhost', 'postgres://u:p@h:1/d', 'postgres://u:a@b@h/d', 'postgres://u@%2Ftmp/d'])
      expect(parsePostgresAddress(url).url).to.equal(new URL(url).href)
  })

  it('has no TLS by default, all of it where a file is named, and the authorities of the system by their word', () => {
    const modeOf = (parameters: string) => parsePostgresAddress(`postgres://h/d?${parameters}`)
    expect(modeOf('').sslMode).to.equal('disable')
    expect(modeOf('sslrootcert=/ca.pem')).to.deep.include({ sslMode: 'verify-full' })
    expect(modeOf('sslmode=verify-ca&sslrootcert=system').tls.ca).to.equal(undefined)
  })

  it('is refused by the name of what is wrong', () => {
    const faultOf = (url: string) => {
      try {
        return parsePostgresAddress(url) && 'none'
      } catch (error) {
        return (error as Error).message
      }
    }
    for (const [parameters, fault] of [
      ['sslmode=no-verify', /sslmode = disable, require, verify-ca, verify-full, not no-verify/],
      ['sslmode=prefer', /not prefer/],
      ['target_session_attrs=primary', /must not have target_session_attrs;/],
      ['ssl=true', /must not have ssl;/],
      ['sslnegotiation=direct', /must not have sslnegotiation/],
      ['sslmode=disable&sslrootcert=x', /certificate files are named/],
      ['sslcert=x', /both of sslcert and sslkey/],
    ] as const)
      expect(faultOf(`postgres://u:secret@h/d?${parameters}`))
        .to.match(fault)
        .and.not.match(/secret/)
    for (const url of ['mysql://h/d', 'h:5432', 'postgres://h:port/d', 'postgres://u:1#2@h/d'])
      expect(faultOf(url), url).to.match(/^must be postgres:/)
    for (const hosts of ['one,two', 'one:1,two:2', 'one,two:2'])
      expect(faultOf(`postgres://${hosts}/d`), hosts).to.match(/of one host$/)
  })

  it('names another database of the same server', () => {
    const given = 'postgres://u:p@one:1/log?sslmode=require'
    expect(withDatabase(given, 'log_a')).to.equal('postgres://u:p@one:1/log_a?sslmode=require')
    expect(withDatabase('postgres://u@h', 'x')).to.equal('postgres://u@h/x')
    expect(databaseOf('postgres://u@one/a%20b')).to.equal('a b')
  })

  it('takes the files that the environment names, and its own before them', () => {
    const tls = { ca: '/a b.pem', certificate: undefined, key: undefined }
    const complete = (url: string) =>
      parsePostgresAddress(completePostgresAddress(url, { tls, isPooled: false })).tls.ca
    expect(complete('postgres://h/d')).to.equal('/a b.pem')
    expect(complete('postgres://h/d?sslrootcert=own.pem')).to.equal('own.pem')
  })
})

describe('the settings of stores', () => {
  it('are the addresses as they are when nothing else is set', () => {
    const { CLICKHOUSE_URL: clickhouse, DATABASE_URL: postgres } = SERVERS
    expect(serversOf({})).to.deep.include({ postgres, clickhouse, clickhouseReadOnly: clickhouse })
    expect(serversOf({})).not.to.have.property('postgresDirect')
  })

  it('become part of the addresses', () => {
    const servers = serversOf({
      DATABASE_TLS_CA: FILE,
      DATABASE_DIRECT_URL: 'postgres://direct/marketlog',
      CLICKHOUSE_URL: 'https://h',
      CLICKHOUSE_TLS_CA: FILE,
      CLICKHOUSE_CLUSTER: 'main',
    })
    expect(parsePostgresAddress(servers.postgres)).to.deep.include({ isPooled: true, sslMode: 'verify-full' })
    expect(parsePostgresAddress(servers.postgresDirect ?? '')).to.deep.include({
      isPooled: false,
      sslMode: 'verify-full',
    })
    for (const url of [servers.clickhouse, servers.clickhouseReadOnly])
      expect(parseClickhouseAddress(url)).to.deep.include({ isTls: true, cluster: 'main' })
  })

  it('are refused by the names of their variables', () => {
    const faults = (changes: Record<string, string>) => {
      try {
        return serversOf(changes) && ''
      } catch (error) {
        return (error as Error).message
      }
    }
    expect(faults({ DATABASE_URL: 'postgres://u:secret@h/d?sslmode=x' }))
      .to.match(/^DATABASE_URL must have sslmode/)
      .and.not.contain('secret')
    expect(faults({ DATABASE_TLS_CERT: FILE })).to.match(/DATABASE_TLS_CERT and DATABASE_TLS_KEY go together/)
    expect(faults({ DATABASE_TLS_CA: '/nowhere' })).to.match(/DATABASE_TLS_CA names no file/)
    expect(faults({ DATABASE_DIRECT_URL: 'nothing' })).to.match(/^DATABASE_DIRECT_URL must be postgres:/)
    expect(faults({ CLICKHOUSE_TLS_CA: FILE })).to.match(/CLICKHOUSE_URL must be an https URL/)
    expect(faults({ CLICKHOUSE_CLUSTER: "x' OR" })).to.match(/CLICKHOUSE_URL must have a cluster of letters/)
    expect(faults({ CLICKHOUSE_READONLY_URL: 'ftp://h' })).to.match(/^CLICKHOUSE_READONLY_URL must be an http/)
  })

  it('of a pooler on this machine do not reach servers that the user names', () => {
    const servers = { ...readConfig(SERVERS).servers, postgresDirect: 'postgres://local/d' }
    const local = { servers, stateDir: '', cursorKey: undefined, secretKey: undefined }
    expect(settleEnvironment({}, local, false)).to.have.property('DATABASE_DIRECT_URL', 'postgres://local/d')
    expect(settleEnvironment({ DATABASE_URL: 'postgres://theirs/d' }, local, false)).not.to.have.property(
      'DATABASE_DIRECT_URL',
    )
  })
})

describe('an address of ClickHouse', () => {
  it('names one host', () => {
    expect(parseClickhouseAddress('https://u:p,p@one:8443/d').url.username).to.equal('u')
    for (const address of ['https://one,https://two', 'https://one:1,two:2', 'https://one/d, https://two'])
      expect(() => parseClickhouseAddress(address), address).to.throw('of one host')
  })

  it('takes certificate files and a cluster', () => {
    const tls = { ca: '/ca.pem', certificate: undefined, key: undefined }
    const complete = completeClickhouseAddress('https://one', { tls, cluster: 'main' })
    expect(parseClickhouseAddress(complete)).to.deep.include({ tls, cluster: 'main' })
  })
})

describe('the tables of ClickHouse', () => {
  const table = {
    name: 'rows',
    writer: 'test',
    columns: { a: 'UInt8', version: 'UInt8' },
    engine: 'ReplacingMergeTree(version)',
    orderBy: 'a',
    partitionBy: 'tuple()',
  }

  it('are made on one server without a cluster', () => {
    expect(createTable('log', table))
      .to.contain('EXISTS log.rows (')
      .and.contain('ENGINE = ReplacingMergeTree(version)\n')
    expect(onCluster(undefined)).to.equal('')
  })

  it('have each a replicated counterpart', () => {
    for (const { table: each } of VIEWS.flatMap(({ tables }) => tables)) {
      const text = createTable('log', each, 'main')
      expect(text, each.name).to.match(/ENGINE = Replicated\w*MergeTree\('/)
      expect(text, each.name).not.to.contain('non_replicated')
    }
  })
})
