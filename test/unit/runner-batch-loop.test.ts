import { expect } from 'chai'
import type { MessageBatch } from '#infra/kafka/group-consumer.ts'
import { openLog } from '#infra/runtime/log.ts'
import { openMetrics } from '#infra/runtime/metrics.ts'
import { batchLoop, type ProcessBatch } from '#streams/runner/group-loop.ts'
import { openPartitions } from '#streams/runner/partitions.ts'

interface Opened {
  close(): Promise<void>
}

const batch: MessageBatch = { topic: 'quotes', partition: 0, first: 0, next: 1, messages: [] }
const log = openLog({ level: 'silent', name: 'test' })
const nothing = async () => undefined

function loopOf(process: ProcessBatch<Opened>, open: () => Promise<Opened> = async () => ({ close: nothing })) {
  let opened = 0
  const partitions = openPartitions<Opened>(() => {
    opened += 1
    return open()
  }, log)
  const loop = batchLoop({ group: 'g', log, metrics: openMetrics(), partitions, process })
  loop.assigned([{ topic: 'quotes', partition: 0 }], nothing)
  return { loop, opened: () => opened }
}

describe('runner batch loop', () => {
  it('asks for the batch again after a failure, to a reopened partition', async () => {
    let failures = 1
    const { loop, opened } = loopOf(async () => {
      if (failures-- > 0) throw new Error('the store is away')
      return 'done'
    })
    expect(await loop.batch(batch, nothing, nothing)).to.equal('again')
    expect(await loop.batch(batch, nothing, nothing)).to.equal('done')
    expect(opened()).to.equal(2)
  })

  it('used to end the process after a freeze: an error of the group leaves the wrapper of the client', async () => {
    const bare = Object.assign(new Error('The coordinator is not aware of this member'), { type: 'UNKNOWN_MEMBER_ID' })
    const { loop } = loopOf(async () => {
      throw new Error('retries', { cause: bare })
    })
    expect(await loop.batch(batch, nothing, nothing).catch(error => error)).to.equal(bare)
  })

  it('used to keep the group waiting: it hands an error of the group on while the partition is still opening', async () => {
    const held = Promise.withResolvers<Opened>()
    const { loop } = loopOf(
      async () => 'done',
      () => held.promise,
    )
    const bare = Object.assign(new Error('rebalancing'), { type: 'REBALANCE_IN_PROGRESS' })
    let ticks = 0
    const tick = async () => {
      if (++ticks > 1) throw bare
    }
    expect(await loop.batch(batch, tick, nothing).catch(error => error)).to.equal(bare)
    held.resolve({ close: nothing })
  })
})
