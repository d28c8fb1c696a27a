import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { parseRedisUrl, readRedisAccess } from '#infra/runtime/redis-settings.ts'

describe('addresses of Redis', () => {
  const nothing = { master: '', user: undefined, password: undefined, database: 0 }
  const single = { kind: 'single', isTls: false, nodes: [{ host: 'cache', port: 6379 }], ...nothing }

  it('name one server, with TLS or without, with credentials and a database', () => {
    expect(parseRedisUrl('redis://cache')).to.deep.equal(single)
    expect(parseRedisUrl('rediss://cache:6380/')).to.deep.equal({
      ...single,
      isTls: true,
      nodes: [{ host: 'cache', port: 6380 }],
    })
    expect(parseRedisUrl('redis://me:p%40ss%20word@cache:6379/3')).to.deep.equal({
      ...single,
      user: 'me',
      password: 'p@ss word',
      database: 3,
    })
    expect(parseRedisUrl('redis://:secret@[::1]:7000')).to.deep.equal({
      ...single,
      nodes: [{ host: '::1', port: 7000 }],
      password: 'secret',
    })
  })

  it('name several Sentinels and their master, or several servers of a Cluster', () => {
    expect(parseRedisUrl('redis-sentinel://me:secret@s1,s2:5000,[::2]:5001/1?master=main')).to.deep.equal({
      ...single,
      kind: 'sentinel',
      master: 'main',
      user: 'me',
      password: 'secret',
      database: 1,
      nodes: [
        { host: 's1', port: 26379 },
        { host: 's2', port: 5000 },
        { host: '::2', port: 5001 },
      ],
    })
    expect(parseRedisUrl('rediss-cluster://n1:7001,n2')).to.deep.equal({
      ...single,
      kind: 'cluster',
      isTls: true,
      nodes: [
        { host: 'n1', port: 7001 },
        { host: 'n2', port: 6379 },
      ],
    })
  })

  const WRONG = [
    ...['http://cache', 'cache:6379', 'redis://', 'redis://a,b', 'redis://cache?db=1', 'redis://cache/name'],
    ...['redis-sentinel://s1', 'redis-cluster://n1?master=main', 'redis-cluster://n1/2', 'redis://cache:port'],
    ...['redis://cache:70000', 'redis://p%ss:%@cache'],
  ]
  for (const text of WRONG) it(`are refused: ${text}`, () => expect(parseRedisUrl(text)).to.equal(undefined))
})

describe('access to Redis', () => {
  let folder: string
  let file: string
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'marketlog-redis-settings-'))
    file = join(folder, 'file')
    writeFileSync(file, 'from a file\n')
  })
  after(() => rmSync(folder, { recursive: true, force: true }))

  const faultsOf = (env: Record<string, string>, url = 'redis://cache'): string[] => {
    const faults: string[] = []
    readRedisAccess(env, url, faults)
    return faults
  }

  it('takes passwords from files, read again at each use', () => {
    const faults: string[] = []
    const env = { REDIS_USER: 'me', REDIS_PASSWORD_FILE: file, REDIS_SENTINEL_PASSWORD_FILE: file }
    const { user, password, sentinel } = readRedisAccess(env, 'redis-sentinel://s?master=m', faults)
    expect([faults, user, password?.(), sentinel.password?.()]).to.deep.equal([[], 'me', 'from a file', 'from a file'])
    writeFileSync(file, 'replaced')
    expect(password?.()).to.equal('replaced')
  })

  it('names the variable at fault, and quotes no secret', () => {
    expect(faultsOf({}, 'redis://:hidden@cache?x=1').join())
      .to.match(/REDIS_URL must be/)
      .and.not.include('hidden')
    expect(faultsOf({ REDIS_TLS_CA: file }).join()).to.include('REDIS_TLS')
    expect(faultsOf({ REDIS_TLS_CERT: file }, 'rediss://cache').join()).to.include('REDIS_TLS_KEY')
    expect(faultsOf({ REDIS_TLS_CA: '/none' }, 'rediss://cache').join()).to.include('REDIS_TLS_CA names no file')
    expect(faultsOf({ REDIS_PASSWORD: 'hidden' }, 'redis://:other@cache').join()).to.include('REDIS_PASSWORD')
    expect(faultsOf({ REDIS_USER: 'me' }).join()).to.include('REDIS_PASSWORD')
    expect(faultsOf({ REDIS_SENTINEL_PASSWORD: 'hidden' }).join()).to.include('REDIS_SENTINEL')
    expect(faultsOf({ REDIS_SENTINEL_TLS: 'yes' }, 'redis-sentinel://s?master=m').join()).to.include(
      'REDIS_SENTINEL_TLS',
    )
    expect(faultsOf({ REDIS_TLS_CA: file, REDIS_SENTINEL_TLS: 'false' }, 'rediss-sentinel://s?master=m')).to.deep.equal(
      [],
    )
  })
})
