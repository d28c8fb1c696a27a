/**
 * The sink runner on a real log: a view decides where its partition goes on, not the group.
 */
import { expect } from 'chai'
import { connectKafka } from '#infra/kafka/connection.ts'
import { openPublisher } from '#infra/kafka/publisher.ts'
import type { StartRole } from '#infra/runtime/role.ts'
import { openLagReader } from '#services/cli/wait-for-views.ts'
import { OK } from '#streams/runner/outcome.ts'
import { runSink } from '#streams/runner/sink-runner.ts'
import { eventually } from '#test/harness/eventually.ts'
import { ratesRecord } from '#test/harness/published-records.ts'
import { useServers } from '#test/harness/use-servers.ts'

const RECORDS = 12
const POSITION = 5

describe('sink runner', () => {
  const platform = useServers()

  /** The ends that readers of the view were to wait for. */
  let waitedFor: number[] = []

  /** A view that starts at a position and notes what it is given. */
  const noting = (
    position: number | (() => number),
    seen: number[],
    flushed: number[],
    isCurrent?: () => Promise<boolean>,
  ): StartRole => {
    return context =>
      runSink(context, connectKafka({ config: context.config, role: 'test', log: context.log }), {
        group: 'fx',
        topics: ['fx'],
        open: async ({ topic }) => ({
          position: {
            topicId: await (await context.topicIds()).idOf(topic),
            next: typeof position === 'number' ? position : position(),
          },
          ...(isCurrent && { isCurrent }),
          apply: ({ offset }) => {
            seen.push(offset)
            return OK
          },
          async flush({ next, until }) {
            flushed.push(next)
            if (until !== undefined) waitedFor.push(until)
          },
          close: async () => undefined,
        }),
      })
  }

  const publish = async (count: number): Promise<void> => {
    const kafka = platform.connect()
    const publisher = await openPublisher(kafka, 'ingest')
    for (let asOf = 0; asOf < count; asOf++) await publisher.send([ratesRecord(kafka.codec, asOf)])
    await publisher.close()
  }

  const untilNoLag = async (): Promise<void> => {
    const look = await openLagReader(platform.config, platform.log)
    const groups = [{ group: 'fx', topic: 'fx' as const, stage: 0 }]
    await eventually(async () => (await look.read(groups)).every(({ lag }) => lag === 0), 'no lag')
    await look.close()
  }

  it('goes on from a view that is ahead of its group, and moves the group there', async () => {
    // What used to happen: records below the view's position were flushed as progress, which a view refuses
    // as another owner's doing, for ever.
    await publish(RECORDS)
    const seen: number[] = []
    const flushed: number[] = []
    const whole = await platform.startRoles([noting(RECORDS, seen, flushed)])
    await untilNoLag()
    await whole.stop()
    expect(seen).to.deep.equal([])
    expect(flushed).to.deep.equal([])
  })

  const from = (position: number) => Array.from({ length: RECORDS - position }, (_, each) => position + each)

  it('goes back to a view that is behind its group, though no record comes', async () => {
    // What used to happen: a view that had been wiped stayed empty until its next record.
    const seen: number[] = []
    const flushed: number[] = []
    waitedFor = []
    const behind = await platform.startRoles([noting(POSITION, seen, flushed)])
    await eventually(() => flushed.at(-1) === RECORDS, 'the last record')
    await untilNoLag()
    await behind.stop()
    expect(seen).to.deep.equal(from(POSITION))
    expect(flushed[0], 'what readers are to know first').to.equal(POSITION)
    expect(new Set(waitedFor)).to.deep.equal(new Set([RECORDS]))
  })

  it('reopens a view that was wiped while it ran, though no record comes', async () => {
    const seen: number[] = []
    const flushed: number[] = []
    let stored: number | undefined = RECORDS
    const position = () => stored ?? 0
    const view = noting(position, seen, flushed, async () => {
      if (flushed.length > 0) stored = flushed.at(-1)
      return stored === (flushed.at(-1) ?? RECORDS)
    })
    const running = await platform.startRoles([view])
    await running.ready()
    await untilNoLag()
    expect(seen).to.deep.equal([])
    stored = undefined
    await eventually(() => flushed.at(-1) === RECORDS, 'the view to be whole again')
    await running.stop()
    expect(seen).to.deep.equal(from(0))
  })
})
