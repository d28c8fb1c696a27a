/**
 * The sink runner on a real log: a view decides where its partition goes on, not the group.
 */
import { expect } from 'chai'
import { connectKafka } from '#infra/kafka/connection.ts'
import { openPublisher } from '#infra/kafka/publisher.ts'
import type { StartRole } from '#infra/runtime/role.ts'
import { fxRatesPublished } from '#schemas/events/fx-rates-published.ts'
import { openLagLook } from '#services/cli/wait-for-views.ts'
import { OK } from '#streams/runner/outcome.ts'
import { runSink } from '#streams/runner/sink-runner.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'

const RECORDS = 12
const POSITION = 5
const LIMIT_MS = 30_000

describe('sink runner', function () {
  this.timeout(60_000)
  const place = useServers()

  /** A view that starts at a position and notes what it is given. */
  const noting = (position: number, seen: number[], flushed: number[]): StartRole => {
    return context =>
      runSink(context, connectKafka({ config: context.config, role: 'test', log: context.log }), {
        group: 'fx',
        topics: ['fx'],
        open: async () => ({
          position,
          apply: ({ offset }) => {
            seen.push(offset)
            return OK
          },
          flush: async next => void flushed.push(next),
          close: async () => undefined,
        }),
      })
  }

  const publish = async (count: number): Promise<void> => {
    const kafka = connectKafka({ config: place.config, role: 'test', log: place.log })
    const publisher = await openPublisher(kafka, 'ingest')
    for (let as_of = 0; as_of < count; as_of++) {
      const value = kafka.codec.encode(fxRatesPublished, { as_of, source: 'test', rates: { USD: '1' } })
      await publisher.send([{ topic: 'fx', key: 'USD', value }])
    }
    await publisher.close()
  }

  const untilNoLag = async (): Promise<void> => {
    const look = await openLagLook(place.config, place.log)
    const groups = [{ group: 'fx', topic: 'fx' as const, stage: 0 }]
    await eventually(async () => (await look.look(groups)).every(({ lag }) => lag === 0), LIMIT_MS, 'no lag')
    await look.close()
  }

  it('goes on from a view that stands ahead of its group, and takes the group along', async () => {
    // What used to happen: records below the view's position were flushed as progress, which a view refuses
    // as another owner's doing, for ever.
    await publish(RECORDS)
    const seen: number[] = []
    const flushed: number[] = []
    const whole = await place.startRoles([noting(RECORDS, seen, flushed)])
    await untilNoLag()
    await whole.stop()
    expect(seen).to.deep.equal([])
    expect(flushed).to.deep.equal([])
  })

  it('goes back to a view that stands behind its group', async () => {
    const seen: number[] = []
    const flushed: number[] = []
    const behind = await place.startRoles([noting(POSITION, seen, flushed)])
    await publish(1)
    await eventually(() => flushed.at(-1) === RECORDS + 1, LIMIT_MS, 'the last record')
    await behind.stop()
    expect(seen).to.deep.equal(Array.from({ length: RECORDS + 1 - POSITION }, (_, each) => POSITION + each))
  })
})
