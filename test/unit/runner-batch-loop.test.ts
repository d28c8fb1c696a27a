import { expect } from 'chai'
import type { Codec } from '#infra/kafka/codec.ts'
import type { MessageBatch } from '#infra/kafka/group-consumer.ts'
import { openLog } from '#infra/runtime/log.ts'
import { openMetrics } from '#infra/runtime/metrics.ts'
import { batchLoop, type Opened } from '#streams/runner/group-loop.ts'
import { OK } from '#streams/runner/outcome.ts'
import { openPartitions } from '#streams/runner/partitions.ts'
import { openUnknownEvents } from '#streams/runner/unknown-events.ts'

const batch: MessageBatch = { topic: 'quotes', partition: 0, first: 0, next: 1, messages: [] }
const log = openLog({ level: 'silent', name: 'test' })
const nothing = async () => undefined

function loopOf(write: () => Promise<void>, until: Promise<unknown> = Promise.resolve()) {
  let openings = 0
  const partitions = openPartitions<Opened>(async () => {
    openings += 1
    await until
    const position = () => ({ topicId: 't', next: 0 })
    const partition = { position, check: nothing, fold: () => OK, write, close: nothing }
    return { partition, sought: undefined, batchSequence: 0, isCurrent: undefined, close: nothing }
  }, log)
  const [group, metrics] = ['g', openMetrics()]
  const codec = { learn: nothing } as unknown as Codec
  const watch = { assigned() {}, moved() {}, waited() {} }
  const loop = batchLoop({
    group,
    codec,
    log,
    metrics,
    partitions,
    watch,
    unknown: openUnknownEvents({ group, metrics, log }),
  })
  loop.assigned([{ topic: 'quotes', partition: 0 }], nothing)
  return { loop, openings: () => openings }
}

describe('runner batch loop', () => {
  it('asks for the batch again after a failure, to a reopened partition', async () => {
    let failures = 1
    const { loop, openings } = loopOf(async () => {
      if (failures-- > 0) throw new Error('the store is away')
    })
    expect(await loop.batch(batch, nothing, nothing)).to.equal('again')
    expect(await loop.batch(batch, nothing, nothing)).to.equal('done')
    expect(openings()).to.equal(2)
  })

  it('used to leave the group at the beginning: it commits the position that a batch which repeats leads to', async () => {
    const { loop } = loopOf(nothing)
    const committed: unknown[][] = []
    const answer = await loop.batch(
      { ...batch, next: 0 },
      nothing,
      async (...position) => void committed.push(position),
    )
    expect([answer, committed]).to.deep.equal([0, [['quotes', 0, 0]]])
  })

  it('used to end the process after a freeze: an error of the group leaves the wrapper of the client', async () => {
    const bare = Object.assign(new Error('The coordinator is not aware of this member'), { type: 'UNKNOWN_MEMBER_ID' })
    const { loop } = loopOf(async () => {
      throw new Error('retries', { cause: bare })
    })
    expect(await loop.batch(batch, nothing, nothing).catch(error => error)).to.equal(bare)
  })

  it('used to keep the group waiting: it hands an error of the group on while the partition is still opening', async () => {
    const opening = Promise.withResolvers<void>()
    const { loop } = loopOf(nothing, opening.promise)
    const bare = Object.assign(new Error('rebalancing'), { type: 'REBALANCE_IN_PROGRESS' })
    let ticks = 0
    const tick = async () => {
      if (++ticks > 1) throw bare
    }
    expect(await loop.batch(batch, tick, nothing).catch(error => error)).to.equal(bare)
    opening.resolve()
  })
})
