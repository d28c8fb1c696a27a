/**
 * Which partitions this process is to write: a member of a group that is given partitions and reads none of them.
 *
 * Writers that share topics divide them by the group's assignment. The metadata of a member lists what it runs in each partition;
 * the group's leader assigns by sticky-assignment.ts. States: joining → assigned ⇄ rebalancing, and left. Invariant: while a group
 * rebalances, nothing is taken from a member; a member that was frozen may still act in a former generation, so an assignment is
 * no permission to write: only fencing by the producer's epoch protects the partition.
 */
import { addAbortListener } from 'node:events'
import type { PartitionAssigner } from 'kafkajs'
import type { TopicKey } from '#schemas/topics.ts'
import { retryFor } from '../runtime/async/retry.ts'
import { withAdmin } from './admin.ts'
import { AssignerProtocol } from './client/kafkajs.ts'
import type { KafkaConnection } from './connection.ts'
import { type GroupMember, openMember } from './membership.ts'
import { assignUnits, type MemberClaims } from './sticky-assignment.ts'

/** Something that one process at a time runs: the owner of the partition that it writes. */
interface OwnedWork {
  name: string
  topic: TopicKey
  partition: number
}

export interface Ownership extends GroupMember {
  /** Resolves when the group has answered after this call: by then it has revoked what this member no longer owns. */
  confirmed(signal: AbortSignal): Promise<void>
}

interface OwnershipOptions {
  group: string
  /** All that this process could run; the other members can run the same. */
  work: readonly OwnedWork[]
  /** A generation began: the names of what this process runs from now on. */
  assigned(names: ReadonlySet<string>): void
  fail(error: Error): void
}

/** How often it is checked whether a heartbeat is due. */
const CHECK_MS = 250
const PROTOCOL = 'marketlog-sticky'
const VERSION = 0

const unitOf = (topic: string, partition: number): string => `${topic}/${partition}`

/** Joins a group of writers; `assigned` is called at every generation. */
export async function joinOwners(kafka: KafkaConnection, options: OwnershipOptions): Promise<Ownership> {
  const { work, assigned } = options
  const unitOfWork = ({ topic, partition }: OwnedWork): string => unitOf(kafka.topicName(topic), partition)
  const byUnit = [...Map.groupBy(work, unitOfWork)]
  const runs = Object.fromEntries(byUnit.map(([unit, own]) => [unit, own.map(({ name }) => name)]))
  const own: MemberClaims & { owned: string[] } = { runs, owned: [], generation: 0 }
  const subscribed = [...new Set(work.map(({ topic }) => kafka.topicName(topic)))]
  const { consumer, trouble, join, leave } = await openMember(kafka, options, {
    rebalanceTimeout: 10_000,
    maxWaitTimeInMs: CHECK_MS,
    partitionAssigners: [assignerOf(() => own)],
  })
  let answered = Promise.withResolvers<void>()
  const answer = (): void => {
    answered.resolve()
    answered = Promise.withResolvers()
  }
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    // Nothing is read: the partitions are assigned for writing.
    consumer.pause(subscribed.map(topic => ({ topic })))
    own.owned = Object.entries(payload.memberAssignment).flatMap(([topic, partitions]) =>
      partitions.map(partition => unitOf(topic, partition)),
    )
    assigned(new Set(work.filter(one => own.owned.includes(unitOfWork(one))).map(({ name }) => name)))
    answer()
  })
  consumer.on(consumer.events.HEARTBEAT, ({ payload }) => {
    own.generation = payload.groupGenerationId
    answer()
  })
  await join({ topics: subscribed }, { eachBatch: async () => undefined })
  return {
    trouble,
    leave,
    async confirmed(signal) {
      const aborted = Promise.withResolvers<void>()
      const listener = addAbortListener(signal, () => aborted.resolve())
      await Promise.race([answered.promise, aborted.promise]).finally(() => listener[Symbol.dispose]())
    },
  }
}

const assignerOf =
  (own: () => MemberClaims): PartitionAssigner =>
  () => ({
    name: PROTOCOL,
    version: VERSION,
    protocol: ({ topics: subscribed }) => ({
      name: PROTOCOL,
      metadata: AssignerProtocol.MemberMetadata.encode({
        version: VERSION,
        topics: subscribed,
        userData: Buffer.from(JSON.stringify(own())),
      }),
    }),
    assign: async ({ members }) => {
      const claims = members.map(({ memberId, memberMetadata }) => [memberId, claimsOf(memberMetadata)] as const)
      return [...assignUnits(new Map(claims))].map(([memberId, units]) => ({
        memberId,
        memberAssignment: AssignerProtocol.MemberAssignment.encode({
          version: VERSION,
          assignment: byTopic(units),
          userData: Buffer.alloc(0),
        }),
      }))
    },
  })

function claimsOf(metadata: Buffer): MemberClaims {
  const userData = AssignerProtocol.MemberMetadata.decode(metadata)?.userData ?? Buffer.alloc(0)
  return JSON.parse(userData.toString()) as MemberClaims
}

function byTopic(units: readonly string[]): Record<string, number[]> {
  const topicOf = (unit: string): string => unit.slice(0, unit.lastIndexOf('/'))
  const partitionOf = (unit: string): number => Number(unit.slice(unit.lastIndexOf('/') + 1))
  return Object.fromEntries([...Map.groupBy(units, topicOf)].map(([topic, own]) => [topic, own.map(partitionOf)]))
}

/** In which a group is over any rebalance. */
const REBALANCE_LIMIT_MS = 15_000
const ASK_AGAIN_MS = 500

/** The names of all that the living members of a group of writers run. */
export async function runningWork(kafka: KafkaConnection, group: string): Promise<Set<string>> {
  return withAdmin(kafka, async admin => {
    const members = await retryFor(REBALANCE_LIMIT_MS, ASK_AGAIN_MS, async () => {
      const { groups } = await admin.describeGroups([kafka.groupName(group)])
      // While the group rebalances, the coordinator returns no metadata of its members.
      if (groups[0] === undefined || ['PreparingRebalance', 'CompletingRebalance'].includes(groups[0].state))
        throw new Error(`the group ${group} is rebalancing`)
      return groups[0].members
    })
    return new Set(members.flatMap(({ memberMetadata }) => Object.values(claimsOf(memberMetadata).runs).flat()))
  })
}
