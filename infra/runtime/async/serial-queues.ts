import PQueue from 'p-queue'

export type SerialQueues = ReturnType<typeof openSerialQueues>

/** Queues by key, each of which runs one task at a time, in the order in which they came. Rejects with `refusal` where `limit` tasks of a key are running or waiting; work of other keys is not held up. */
export function openSerialQueues(limit: number, refusal: () => Error) {
  const queues = new Map<string, PQueue>()
  const open = (key: string): PQueue => {
    const queue = new PQueue({ concurrency: 1 })
    queue.addEventListener('idle', () => queues.delete(key))
    queues.set(key, queue)
    return queue
  }
  return {
    async add<T>(key: string, work: () => Promise<T>): Promise<T> {
      const queue = queues.get(key) ?? open(key)
      if (queue.size + queue.pending >= limit) throw refusal()
      return queue.add(work)
    },
  }
}
