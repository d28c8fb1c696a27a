/**
 * kafkajs looks up coordinators four times in each transaction, of nine sequential requests. Here an answer is cached for a while.
 *
 * Tested in test/unit/known-coordinators.test.ts.
 */
import { replaceExport } from './internals.ts'

/** After a move a transaction fails, or is tried again, until this is over; those of a busy producer come many times in it. */
const COORDINATOR_KNOWN_MS = 2_000

interface CoordinatorSearch {
  findGroupCoordinatorMetadata(wanted: { groupId: string; coordinatorType: number }): Promise<unknown>
}

/**
 * A cluster as a transactional producer sees it: who coordinates is asked for once in a while. The client asks four times in
 * each transaction, of nine requests one after the other.
 */
export function withKnownCoordinators<T extends CoordinatorSearch>(cluster: T, now: () => number): T {
  const known = new Map<string, { until: number; metadata: unknown }>()
  return Object.assign(Object.create(cluster) as T, {
    async findGroupCoordinatorMetadata(wanted: { groupId: string; coordinatorType: number }): Promise<unknown> {
      const key = `${wanted.coordinatorType} ${wanted.groupId}`
      const found = known.get(key)
      if (found && now() < found.until) return found.metadata
      const metadata = await cluster.findGroupCoordinatorMetadata(wanted)
      known.set(key, { until: now() + COORDINATOR_KNOWN_MS, metadata })
      return metadata
    },
  })
}

export function rememberCoordinators(): void {
  type Options = { cluster: CoordinatorSearch }
  replaceExport('producer/eosManager', (open: (options: Options) => unknown) => (options: Options) => {
    return open({ ...options, cluster: withKnownCoordinators(options.cluster, () => performance.now()) })
  })
}
