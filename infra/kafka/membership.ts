/**
 * Takes the dead members of this machine out of their groups before a new one joins.
 *
 * A member killed with SIGKILL keeps its partitions until its session ends, 10 s during which nothing
 * is processed. Member ids are therefore kept in files `<group>.<pid>.member`; whoever starts sends
 * LeaveGroup for every file whose process is gone (0.9 s instead of 10). Invariant: a file of a living
 * process is never touched, so two processes may share the folder.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { KafkaConnection } from './connection.ts'
import { openRangeReader } from './range-reader.ts'

const FILE_FORM = /^(.+)\.(\d+)\.member$/

/** Sends LeaveGroup for members of the group whose processes have died. */
export async function leaveForTheDead(kafka: KafkaConnection, group: string): Promise<void> {
  mkdirSync(kafka.stateDir, { recursive: true })
  const dead = readdirSync(kafka.stateDir).filter(file => {
    const match = FILE_FORM.exec(file)
    return match !== null && match[1] === group && !isAlive(Number(match[2]))
  })
  if (dead.length === 0) return
  const reader = await openRangeReader(kafka, [])
  try {
    for (const file of dead) {
      const path = join(kafka.stateDir, file)
      const memberId = readWhenThere(path)
      // The coordinator may have dropped the member by itself meanwhile: that is as good.
      if (memberId) await reader.leaveGroup(group, memberId).catch(() => undefined)
      rmSync(path, { force: true })
    }
  } finally {
    await reader.close()
  }
}

/** Keeps the id of a member that has joined. */
export function rememberMember(kafka: KafkaConnection, group: string, memberId: string): void {
  mkdirSync(kafka.stateDir, { recursive: true })
  writeFileSync(fileOf(kafka, group), memberId)
}

/** Forgets the id of a member that has left by itself. */
export function forgetMember(kafka: KafkaConnection, group: string): void {
  rmSync(fileOf(kafka, group), { force: true })
}

const fileOf = (kafka: KafkaConnection, group: string): string => join(kafka.stateDir, `${group}.${process.pid}.member`)

/** Another process that starts at the same time may have taken the dead member out already. */
function readWhenThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
