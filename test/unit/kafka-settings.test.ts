/** A fault that is found at a start is one line; one that is found by a broker costs a deployment. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { readKafkaSettings, readRegistrySettings } from '#infra/runtime/kafka-settings.ts'
import { readSecret } from '#infra/runtime/secret.ts'
import { topics } from '#schemas/topics.ts'
import { aclRoles, aclsOf } from '#services/cli/acls.ts'

type Environment = Record<string, string>

const faultsOf = (env: Environment): string[] => {
  const faults: string[] = []
  readKafkaSettings(env, faults)
  readRegistrySettings(env, faults)
  return faults
}

describe('a secret', () => {
  let folder: string
  let file: string
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'marketlog-secret-'))
    file = join(folder, 'secret')
  })
  after(() => rmSync(folder, { recursive: true }))

  it('is a value, or what its file holds now', () => {
    writeFileSync(file, 'first\n')
    const read = readSecret({ KEY_FILE: file }, 'KEY', [])
    expect([readSecret({ KEY: 'value' }, 'KEY', [])?.(), read?.()]).to.deep.equal(['value', 'first'])
    writeFileSync(file, 'second\n')
    expect(read?.()).to.equal('second')
  })

  it('is refused when it is given twice, or by a file that is missing or empty, and never quoted', () => {
    writeFileSync(file, '\n')
    const faults: string[] = []
    readSecret({ KEY: 'value', KEY_FILE: file }, 'KEY', faults)
    readSecret({ KEY_FILE: file }, 'KEY', faults)
    readSecret({ KEY_FILE: join(folder, 'missing') }, 'KEY', faults)
    expect(faults.map(fault => fault.split(':')[0])).to.deep.equal([
      'KEY and KEY_FILE are both set',
      'KEY_FILE is empty',
      'KEY_FILE cannot be read',
    ])
    expect(faults.join()).not.to.contain('value')
  })
})

describe('the settings of Kafka and the registry', () => {
  it('are plain when nothing is set', () => {
    expect(readKafkaSettings({}, [])).to.deep.equal({
      tls: undefined,
      sasl: undefined,
      replicationFactor: undefined,
      minInsyncReplicas: undefined,
    })
    expect(faultsOf({})).to.deep.equal([])
  })

  const cases: [string, Environment, RegExp][] = [
    [
      'half a client certificate',
      { KAFKA_TLS_CERT: import.meta.filename },
      /KAFKA_TLS_CERT and KAFKA_TLS_KEY go together/,
    ],
    [
      'a file that is not there',
      { KAFKA_TLS_CA: join(import.meta.dirname, 'missing.pem') },
      /KAFKA_TLS_CA names no file/,
    ],
    ['an unknown mechanism', { KAFKA_SASL: 'gssapi', KAFKA_USER: 'u', KAFKA_PASSWORD: 'p' }, /KAFKA_SASL must be/],
    [
      'a mechanism without a password',
      { KAFKA_SASL: 'plain', KAFKA_USER: 'u' },
      /KAFKA_PASSWORD or KAFKA_PASSWORD_FILE/,
    ],
    ['a user without a mechanism', { KAFKA_USER: 'u' }, /KAFKA_SASL is not set/],
    [
      'more replicas in sync than there are',
      { KAFKA_REPLICATION_FACTOR: '2', KAFKA_MIN_INSYNC_REPLICAS: '3' },
      /above/,
    ],
    ['a replication factor of nothing', { KAFKA_REPLICATION_FACTOR: '0' }, /whole number above 0/],
    ['a registry user without a password', { SCHEMA_REGISTRY_USER: 'u' }, /go together/],
  ]
  for (const [what, env, fault] of cases)
    it(`are refused with ${what}`, () => {
      expect(faultsOf(env)).to.have.length(1)
      expect(faultsOf(env)[0]).to.match(fault)
    })
})

describe('the rights of roles', () => {
  const rightsOf = (role: string) => aclsOf(role, 'n.', `User:${role}`)
  const topicsOf = (role: string, operation: string) =>
    rightsOf(role)
      .filter(acl => acl.resource === 'TOPIC' && acl.operation === operation)
      .map(({ name }) => name)

  it('let each topic be written by its one writer alone', () => {
    for (const { name, writer } of Object.values(topics)) {
      if (writer === 'runner') continue
      expect(aclRoles.filter(role => topicsOf(role, 'WRITE').includes(`n.${name}`))).to.deep.equal([writer])
    }
  })

  it('let each topic be read by those that the catalogue names, besides the tools', () => {
    for (const { name, writer, readers } of Object.values(topics)) {
      const own = writer === 'setup' ? ['setup'] : []
      const found = aclRoles.filter(role => role !== 'cli' && topicsOf(role, 'READ').includes(`n.${name}`))
      expect(found).to.have.members([...readers, ...own])
    }
  })

  it('hold nothing outside the namespace', () => {
    for (const { name, resource } of aclRoles.flatMap(rightsOf))
      if (resource !== 'CLUSTER') expect(name).to.match(/^n\./)
  })
})
