/**
 * The download cache: what counts as downloaded, and what never does.
 *
 * Works on the pinned Kafka jars, copied from the cache that every native start fills, in a cache of its own.
 */
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { expect } from 'chai'
import { cacheDirectory, provideArtifact } from '#infra/stack/downloads.ts'
import { provideServers, removeServerData } from '#infra/stack/servers.ts'

describe('the download cache', () => {
  let cacheDir: string
  let jars: string

  before('the jars are on this machine', async function () {
    this.timeout(300_000)
    const shared = cacheDirectory(process.env)
    const dataDir = mkdtempSync(join(tmpdir(), 'marketlog-stack-'))
    const others = { SCHEMA_REGISTRY_URL: 'x', REDIS_URL: 'x', CLICKHOUSE_URL: 'x', DATABASE_URL: 'x' }
    const environment = { ...process.env, ...others, KAFKA_BROKERS: undefined, MARKETLOG_DOCKER: 'never' }
    const servers = await provideServers({ dataDir, environment, say: () => {} })
    await servers.stop()
    await removeServerData(dataDir)
    jars = await provideArtifact('kafka', shared, () => Promise.reject(new Error('the jars should be there by now')))
  })

  beforeEach(() => {
    cacheDir = mkdtempSync(join(tmpdir(), 'marketlog-cache-'))
  })

  afterEach(() => rmSync(cacheDir, { recursive: true }))

  const copyJars = async (files: string) => cpSync(jars, files, { recursive: true })
  it('holds what was fetched, whole, and fetches it once', async () => {
    const kept = await provideArtifact('kafka', cacheDir, copyJars)
    expect(readdirSync(kept)).to.deep.equal(readdirSync(jars))
    expect(await provideArtifact('kafka', cacheDir, () => Promise.reject(new Error('fetched again')))).to.equal(kept)
    expect(readdirSync(cacheDir)).to.have.length(1)
  })

  // What was in the cache was taken as it was, whatever had become of it since.
  it('verifies what is kept before each use, and fetches again what has changed', async () => {
    let fetched = 0
    const fetch = (files: string) => {
      fetched += 1
      return copyJars(files)
    }
    const keep = async (kept: string, unpack?: (files: string, target: string) => Promise<void>) => {
      const file = join(kept, readdirSync(kept)[0] as string)
      writeFileSync(file, 'something else')
      expect(await provideArtifact('kafka', cacheDir, fetch, unpack)).to.equal(kept)
      expect(readFileSync(file).equals(readFileSync(join(jars, basename(file))))).to.equal(true)
    }
    await keep(await provideArtifact('kafka', cacheDir, fetch))
    expect(fetched).to.equal(2)
    rmSync(cacheDir, { recursive: true })
    const unpack = async (files: string, target: string) => cpSync(files, target, { recursive: true })
    await keep(await provideArtifact('kafka', cacheDir, fetch, unpack), unpack)
    expect(fetched).to.equal(4)
  })

  const spoilt: [what: string, spoil: (files: string, name: string) => void, says: RegExp][] = [
    [
      'with a file that is not the pinned one, whose sums it names',
      (files, name) => writeFileSync(join(files, name), 'something else'),
      /kafka: \S+\.jar has SHA-512 [0-9a-f]{16}…, pinned is/,
    ],
    [
      'that lacks a file and brings another',
      (files, name) => {
        rmSync(join(files, name))
        writeFileSync(join(files, 'another.jar'), '')
      },
      /missing: \S+\.jar; not pinned: another\.jar/,
    ],
    [
      'that broke off',
      () => {
        throw new Error('the line went dead')
      },
      /^the line went dead$/,
    ],
  ]
  for (const [what, spoil, says] of spoilt)
    it(`keeps nothing of a download ${what}`, async () => {
      const fetched = provideArtifact('kafka', cacheDir, async files => {
        await copyJars(files)
        spoil(files, readdirSync(jars)[0] as string)
      })
      const failure = await fetched.catch(error => error)
      expect(failure).to.be.instanceOf(Error)
      expect(failure.message).to.match(says)
      expect(readdirSync(cacheDir)).to.deep.equal([])
    })

  it('takes one of two downloads that end while the other runs', async () => {
    let arrived = 0
    const bothThere = Promise.withResolvers<void>()
    const fetchTogether = async (files: string) => {
      await copyJars(files)
      arrived++
      if (arrived === 2) bothThere.resolve()
      await bothThere.promise
    }
    const both = [1, 2].map(() => provideArtifact('kafka', cacheDir, fetchTogether))
    const [one] = await Promise.all(both)
    expect(readdirSync(cacheDir)).to.have.length(1)
    expect(readdirSync(one as string)).to.deep.equal(readdirSync(jars))
  })
})
