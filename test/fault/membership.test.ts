/**
 * Members of a group whose process was killed, each process 1 of a namespace of its own, as in a container; all share one state folder. A
 * member was known by its pid, and so a container that was started again took its dead member for itself: it had nothing to do until the
 * session of 10 s was over.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { openMembership } from '#infra/kafka/membership.ts'
import { topics } from '#schemas/topics.ts'
import { noteAbsence } from '#test/harness/absences.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'

const WORKER = fileURLToPath(new URL('../fixtures/group-worker.ts', import.meta.url))
/** Process 1 of a namespace, killed with what started it; without root it needs a namespace of users too. */
const UNSHARE = [...(process.getuid?.() === 0 ? [] : ['--user', '--map-root-user']), '--pid', '--fork', '--kill-child']
const HAS_NAMESPACES = spawnSync('unshare', [...UNSHARE, 'true']).status === 0

describe('members of a group that are process 1', () => {
  const platform = useServers()
  const workers: ChildProcess[] = []
  let kafka: KafkaConnection
  let admin: ReturnType<ReturnType<KafkaConnection['newClient']>['admin']>
  let group: string

  before(async () => {
    if (!HAS_NAMESPACES) noteAbsence('a process namespace', 'members have pids of their own instead of being process 1')
    kafka = platform.connect()
    group = kafka.groupName('members')
    admin = kafka.newClient('admin').admin()
    await admin.connect()
  })
  after(() => admin?.disconnect())
  afterEach(async () => {
    for (const worker of workers.splice(0)) await kill(worker)
  })

  async function kill(worker: ChildProcess): Promise<void> {
    if (worker.exitCode !== null || worker.signalCode !== null) return
    worker.kill('SIGKILL')
    // Unlike its exit, this comes after that of the process that it has started.
    await once(worker, 'close')
  }
  function start() {
    const [command = '', ...inside] = [...(HAS_NAMESPACES ? ['unshare', ...UNSHARE] : []), process.execPath, WORKER]
    const worker = spawn(command, inside, {
      env: { PATH: process.env.PATH, ...platform.environment },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    workers.push(worker)
    const lines: string[] = []
    createInterface({ input: worker.stdout }).on('line', line => lines.push(line))
    const has = (partitions: number) =>
      eventually(() => lines.at(-1) === `joined ${partitions}`, `a member with ${partitions} partitions`)
    return { worker, lines, has }
  }
  const memberIds = async (): Promise<string[]> => {
    const { groups } = await admin.describeGroups([group])
    return groups.flatMap(({ members }) => members.map(({ memberId }) => memberId)).sort()
  }
  const files = (): string[] => readdirSync(platform.config.stateDir).filter(name => /\.(member|lock)$/.test(name))

  it('used to wait for the session of the dead one: started again, the member takes it out before it joins', async () => {
    const first = start()
    await first.has(topics.quotes.partitions)
    await kill(first.worker)
    const again = start()
    await again.has(topics.quotes.partitions)
    expect(again.lines[0]).to.equal('members 0')
    expect(files()).to.have.length(2)
  })

  it('are left alone while they live, by others that share the folder', async () => {
    const first = start()
    await first.has(topics.quotes.partitions)
    const [id] = await memberIds()
    const second = start()
    await second.has(topics.quotes.partitions / 2)
    await first.has(topics.quotes.partitions / 2)
    const both = await memberIds()
    expect(both).to.have.length(2)
    expect(both).to.include(id)
  })

  it('are left alone while they are frozen', async () => {
    const { worker, has } = start()
    await has(topics.quotes.partitions)
    const before = files()
    const pid = HAS_NAMESPACES ? childOf(worker) : (worker.pid ?? 0)
    process.kill(pid, 'SIGSTOP')
    const membership = await openMembership(kafka, group)
    expect(files()).to.include.members(before)
    membership.forget()
    expect(files()).to.deep.equal(before)
  })
})

/** The process that is 1 in there, as it is called out here. */
const childOf = ({ pid }: ChildProcess): number =>
  Number(spawnSync('ps', ['--ppid', String(pid), '-o', 'pid=']).stdout.toString())
