/**
 * Who reaches a cluster that asks for TLS, credentials and rights, and how a refused process ends.
 *
 * There were no settings for any of it, and a client that was refused tried for ten minutes as if brokers were away.
 */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createServer } from 'node:tls'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect } from 'chai'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { setTopicSettings } from '#infra/kafka/topic-admin.ts'
import { signCertificate } from '#infra/stack/certificates.ts'
import { within } from '#test/harness/eventually.ts'
import { findJavaReader } from '#test/harness/java-reader.ts'
import { REGISTRY_TOKEN, useCluster } from '#test/harness/use-cluster.ts'

const MAIN = fileURLToPath(new URL('../../services/cli/main.ts', import.meta.url))
const run = promisify(execFile)
const UNAVAILABLE = 69
const PASSWORDS = { book: 'password-of-book', nobody: 'password-of-nobody' }
const WRONG = 'password-that-is-wrong'

describe('a cluster that asks for TLS, credentials and rights', () => {
  const platform = useCluster({ users: PASSWORDS, setUp: true })
  const context = { environment: process.env, signal: new AbortController().signal }
  const as = (user: keyof typeof PASSWORDS) => ({
    KAFKA_USER: user,
    KAFKA_PASSWORD: PASSWORDS[user],
    KAFKA_PASSWORD_FILE: '',
  })

  /** Runs the book until it ends for a reason; what it logged above information. */
  async function endOf(
    changes: Record<string, string>,
    reason: RegExp,
  ): Promise<{ code: number | null; complaints: string[] }> {
    const role = await platform.spawnRole('book', { ...platform.environment, LOG_LEVEL: 'warn', ...changes })
    role.expectEnd(reason)
    const { code } = await within(role.ended, 'the role to end')
    return { code, complaints: [...role.lines()] }
  }
  async function refused(changes: Record<string, string>, line: RegExp): Promise<void> {
    const { code, complaints } = await endOf(changes, line)
    expect(complaints.slice(1)).to.deep.equal([])
    expect(complaints[0]).to.match(line)
    expect(code).to.equal(UNAVAILABLE)
    for (const secret of [WRONG, ...Object.values(PASSWORDS)]) expect(complaints[0]).not.to.contain(secret)
  }
  const connects = (changes: Record<string, string> = {}) => {
    const admin = platform
      .connect('test', changes)
      .newClient('access', { retry: { retries: 0 } })
      .admin()
    return admin.connect().then(
      () => admin.disconnect().then(() => true),
      () => false,
    )
  }
  const copied = (name: string, content: string | Buffer): string => {
    const file = join(platform.folder, name)
    writeFileSync(file, content)
    return file
  }

  for (const mechanism of ['plain', 'scram-sha-256', 'scram-sha-512'])
    it(`takes ${mechanism}, and no client without credentials`, async () => {
      expect(await connects({ KAFKA_SASL: mechanism })).to.equal(true)
      expect(await connects({ KAFKA_SASL: mechanism, KAFKA_PASSWORD: WRONG, KAFKA_PASSWORD_FILE: '' })).to.equal(false)
    })

  it('reads a password and an authority again for each connection', async () => {
    const { access, tlsDir } = platform.cluster
    const files = {
      KAFKA_PASSWORD_FILE: copied('password', readFileSync(access.passwordFile)),
      KAFKA_TLS_CA: copied('ca.pem', readFileSync(access.ca)),
    }
    const client = platform.connect('test', files).newClient('reload', { retry: { retries: 0 } })
    const reaches = async () => {
      const admin = client.admin()
      return admin.connect().then(
        () => admin.disconnect().then(() => true),
        () => false,
      )
    }
    expect(await reaches()).to.equal(true)
    copied('password', WRONG)
    expect(await reaches()).to.equal(false)
    copyFileSync(access.passwordFile, files.KAFKA_PASSWORD_FILE)
    expect(await reaches()).to.equal(true)
    const other = await signCertificate(context, tlsDir, { name: 'another', days: 1 })
    copyFileSync(other.certificate, files.KAFKA_TLS_CA)
    expect(await reaches()).to.equal(false)
  })

  it('is reached by readers without a group, by requests that the client lacks, and by the Java client', async () => {
    const kafka = platform.connect('test')
    const topic = kafka.topicName('catalog')
    const reader = await openRangeReader(kafka, [topic])
    const end = await reader.stableEnd(topic, 0)
    expect((await reader.diskBytes()).some(one => one.topic === topic && one.bytes > 0)).to.equal(true)
    await reader.close()
    await setTopicSettings(kafka, new Map([[topic, { 'segment.ms': '777000' }]]))
    const java = await findJavaReader()
    expect(java === undefined, 'no Java client').to.equal(false)
    const records = (await java?.read(kafka.brokers, topic, 'read_committed', kafka.settings)) ?? []
    expect(records.at(-1)?.offset).to.equal(end - 1)
  })

  it('has the registry reached by user and password, or by a token', async () => {
    const { accepted, passed } = platform.registry
    expect(passed.get('Basic')).to.be.above(0)
    const token = { SCHEMA_REGISTRY_USER: '', SCHEMA_REGISTRY_PASSWORD_FILE: '', SCHEMA_REGISTRY_TOKEN: REGISTRY_TOKEN }
    await platform.connect('test', token).codec.learn(1)
    expect(passed.get('Bearer')).to.be.above(0)
    expect([...accepted]).to.have.length(2)
  })

  it('ends a role with one line when its password is wrong', () =>
    refused({ KAFKA_PASSWORD: WRONG, KAFKA_PASSWORD_FILE: '' }, /refuses the credentials; check KAFKA_SASL/))

  it('ends a role with one line when its own certificate has expired', async () => {
    const { key, certificate } = await signCertificate(context, platform.cluster.tlsDir, { name: 'expired', days: -1 })
    await refused({ KAFKA_TLS_CERT: certificate, KAFKA_TLS_KEY: key }, /does not accept this client's certificate/)
  })

  it('takes a client certificate that is in force', async () => {
    const { key, certificate } = await signCertificate(context, platform.cluster.tlsDir, { name: 'client', days: 1 })
    expect(await connects({ KAFKA_TLS_CERT: certificate, KAFKA_TLS_KEY: key })).to.equal(true)
  })

  it("ends a role with one line when a broker's certificate has expired", async () => {
    const pem = await signCertificate(context, platform.cluster.tlsDir, { name: 'expired-broker', days: -1 })
    const server = createServer({ key: readFileSync(pem.key), cert: readFileSync(pem.certificate) })
    server.listen({ port: 0, host: '127.0.0.1' })
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    await refused({ KAFKA_BROKERS: `127.0.0.1:${port}` }, /certificate of .* is not accepted \(CERT_HAS_EXPIRED\)/)
    server.close()
  })

  it('ends a role with one line when the registry refuses it', () =>
    refused({ SCHEMA_REGISTRY_PASSWORD: WRONG, SCHEMA_REGISTRY_PASSWORD_FILE: '' }, /registry refuses the credentials/))

  it('ends a role with one line when it lacks rights', () =>
    refused(as('nobody'), /Kafka refuses access: .*marketlog acls/))

  it('takes a role with the rights that `marketlog acls` gives it', async () => {
    const { stdout } = await run(process.execPath, [MAIN, 'acls', 'book', '--principal', 'User:{role}', '--apply'], {
      env: { PATH: process.env.PATH, ...platform.environment },
    })
    const lines = stdout
      .trim()
      .split('\n')
      .map(line => JSON.parse(line))
    expect(new Set(lines.map(({ principal }) => principal))).to.deep.equal(new Set(['User:book']))
    const role = await platform.spawnRole('book', { ...platform.environment, LOG_LEVEL: 'info', ...as('book') })
    const baseUrl = await role.baseUrl()
    await role.line(/slot|all roles have started/)
    expect((await fetch(`${baseUrl}/healthz`)).status).to.equal(200)
    await role.stop()
  })
})
