/**
 * Members of groups, and how dead ones leave before a new one joins.
 *
 * A member killed with SIGKILL keeps its partitions until its session ends, 10 s during which nothing is processed. So each
 * membership keeps the member's id in a file `<group>.<boot>.<token>.member` and listens on a socket `<token>.lock` beside it;
 * a process that starts sends LeaveGroup for every file whose socket has no listener (0.9 s instead of 10). The kernel closes the
 * socket with its process, so no pid is compared: the one of a container is 1 at every start, and means nothing in another.
 *
 * Invariant: a member whose process lives is never taken out, frozen processes included, also where containers of one machine
 * share the folder. Files of another machine, or of another boot of this one, may belong to a live member: they are left alone,
 * and dropped after a day. Where no socket can be made (its path is too long, the file system has none) nothing is kept, and a
 * killed member leaves when its session ends.
 */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { connect, createServer, type Server } from 'node:net'
import { hostname } from 'node:os'
import { join, relative } from 'node:path'
import type { ConsumerConfig, ConsumerRunConfig, ConsumerSubscribeTopics } from 'kafkajs'
import { DAY_MS } from '#schemas/values/instant.ts'
import { openBrokerHealth } from './broker-health.ts'
import type { KafkaConnection } from './connection.ts'
import { connectCluster } from './range-reader.ts'

export interface GroupMember {
  /** Why nothing comes, when brokers are away. */
  trouble(): string | undefined
  leave(): Promise<void>
}

/**
 * Opens a member of a group, in whose place dead members have left it. A crash that kafkajs does not restart fails the process, because
 * its consumer would stop while the process lives on.
 */
export async function openMember(
  kafka: KafkaConnection,
  { group, fail }: { group: string; fail(error: Error): void },
  config: Omit<ConsumerConfig, 'groupId'>,
) {
  const membership = await openMembership(kafka, kafka.groupName(group))
  const brokerHealth = openBrokerHealth(kafka, `the group ${group}`)
  const consumer = kafka.newClient(`group-${group}`, {}, brokerHealth.lost).consumer({
    groupId: kafka.groupName(group),
    sessionTimeout: 10_000,
    heartbeatInterval: 1_500,
    allowAutoTopicCreation: false,
    retry: { initialRetryTime: 100, maxRetryTime: 2_000, retries: 30 },
    ...config,
  })
  let isLeaving = false
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => membership.remember(payload.memberId))
  consumer.on(consumer.events.REQUEST, brokerHealth.answered)
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    if (!payload.restart && !isLeaving) fail(payload.error)
  })
  return {
    consumer,
    trouble: brokerHealth.trouble,
    isLeaving: () => isLeaving,
    async join(subscription: ConsumerSubscribeTopics, run: ConsumerRunConfig): Promise<void> {
      try {
        await consumer.connect()
        await consumer.subscribe(subscription)
        await consumer.run({ autoCommit: false, ...run })
      } catch (error) {
        membership.forget()
        throw error
      }
    },
    async leave(): Promise<void> {
      isLeaving = true
      brokerHealth.close()
      await consumer.disconnect()
      membership.forget()
    },
  }
}

const FILE_FORM = /^(.+)\.([0-9a-f]{8})\.([0-9a-f]{16})\.member$/
const BOOT_FILE = '/proc/sys/kernel/random/boot_id'
const OTHERS_KEPT_MS = DAY_MS

/**
 * Sends LeaveGroup for members of the group whose processes have died, and opens a membership of this one's own, from before it joins
 * until it has left.
 */
export async function openMembership(kafka: KafkaConnection, group: string) {
  const { stateDir, log } = kafka
  mkdirSync(stateDir, { recursive: true })
  await evictDeadMembers(kafka, group)
  const token = randomBytes(8).toString('hex')
  const lock = await hold(lockOf(stateDir, token)).catch(error => {
    log.debug({ error }, 'no lock can be held in the state folder; after a kill the group waits for the session to end')
  })
  const file = join(stateDir, `${group}.${bootName()}.${token}.member`)
  return {
    remember(memberId: string): void {
      if (lock) writeFileSync(file, memberId)
    },
    forget(): void {
      rmSync(file, { force: true })
      lock?.close()
    },
  }
}

async function evictDeadMembers(kafka: KafkaConnection, group: string): Promise<void> {
  const { stateDir, log } = kafka
  const dead: { file: string; lock: string }[] = []
  for (const name of readdirSync(stateDir)) {
    const path = join(stateDir, name)
    // Of a process that was killed before it had joined.
    if (name.endsWith('.lock') && ageOf(path) > OTHERS_KEPT_MS && !(await isHeld(path))) rmSync(path, { force: true })
    const [, of, boot, token = ''] = FILE_FORM.exec(name) ?? []
    if (of !== group) continue
    const [file, lock] = [join(stateDir, name), lockOf(stateDir, token)]
    if (boot === bootName()) {
      if (!(await isHeld(lock))) dead.push({ file, lock })
    } else if (ageOf(file) > OTHERS_KEPT_MS) for (const path of [file, lock]) rmSync(path, { force: true })
  }
  if (dead.length === 0) return
  const memberIds = dead.flatMap(({ file }) => (existsSync(file) ? [readFileSync(file, 'utf8')] : []))
  // The coordinator may have dropped a member by itself meanwhile: that is as good.
  for (const error of await evictMembers(kafka, group, memberIds.filter(Boolean)))
    log.debug({ error }, 'a dead member could not be evicted')
  for (const path of dead.flatMap(({ file, lock }) => [file, lock])) rmSync(path, { force: true })
}

/** Removes members from their group, so that their partitions need not wait for a session to end; resolves with what failed. */
export async function evictMembers(
  kafka: KafkaConnection,
  groupId: string,
  memberIds: readonly string[],
): Promise<unknown[]> {
  const cluster = await connectCluster(kafka, 'evict')
  const failures: unknown[] = []
  for (const memberId of memberIds) {
    const leaving = cluster.findGroupCoordinator({ groupId }).then(broker => broker.leaveGroup({ groupId, memberId }))
    await leaving.catch(error => failures.push(error))
  }
  await cluster.disconnect()
  return failures
}

/** The path of a socket has room for a hundred bytes: the shorter of its two names. */
function lockOf(stateDir: string, token: string): string {
  const path = join(stateDir, `${token}.lock`)
  const fromHere = relative(process.cwd(), path)
  return fromHere.length < path.length ? fromHere : path
}

async function hold(path: string): Promise<Server> {
  const server = createServer(socket => socket.destroy()).listen(path)
  await once(server, 'listening')
  return server.unref()
}

/** Whether a process listens; any other error is no proof of its death. */
async function isHeld(path: string): Promise<boolean> {
  const socket = connect(path)
  try {
    await once(socket, 'connect')
    return true
  } catch (error) {
    return !['ECONNREFUSED', 'ENOENT'].includes((error as NodeJS.ErrnoException).code ?? '')
  } finally {
    socket.destroy()
  }
}

/** Identifies one boot of one machine: sockets mean nothing beyond. */
function bootName(): string {
  const id = existsSync(BOOT_FILE) ? readFileSync(BOOT_FILE, 'utf8') : Buffer.from(hostname()).toString('hex')
  return id
    .replaceAll(/[^0-9a-f]/g, '')
    .padEnd(8, '0')
    .slice(0, 8)
}

function ageOf(file: string): number {
  return Date.now() - (statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? Date.now())
}
