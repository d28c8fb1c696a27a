/**
 * The limit of the live view: plain pipelined HSETs of the same rows into the same keys by the same client.
 *
 * The rows are there already with the same values, so writing them again changes nothing; what is left out is
 * the log, the folding, the listings, and the guarded transaction that keeps rows and position together, for which the sink also folds
 * several rows of an item into one command.
 */
import { closeRedis, openRedis } from '#infra/redis/redis.ts'
import { readConfig } from '#infra/runtime/config.ts'
import { openLog } from '#infra/runtime/log.ts'
import { encodeRow, headKey, itemKey, type LiveHead, type LiveRow } from '#streams/live-view/table.ts'
import { liveRowOf } from '#test/fixtures/live-tables.ts'
import { answerAsBaseline, type Measured, measured } from '../baseline.ts'
import { readChanges, type SinkQuestion } from './read-changes.ts'

/** The fastest of 500, 2,000, 5,000 and 20,000. */
const ROWS_IN_A_PIPELINE = 2_000

async function write(request: SinkQuestion): Promise<Measured> {
  const config = readConfig(request.environment)
  const prefix = config.namespace
  const redis = await openRedis(config, {
    name: `${prefix}baseline`,
    log: openLog({ level: 'warn', name: 'baseline' }),
  })
  try {
    const heads = await Promise.all(request.to.map((_, partition) => redis.get(headKey(partition, prefix))))
    const versions = heads.map(head => (JSON.parse(head ?? '{}') as LiveHead).version)
    const fields = (await readChanges(request)).map(({ partition, change }) => ({
      key: itemKey(partition, versions[partition] ?? 0, change.side, change.item_id, prefix),
      provider: change.provider,
      text: encodeRow(liveRowOf(change) as LiveRow),
    }))
    return await measured(async () => {
      for (let from = 0; from < fields.length; from += ROWS_IN_A_PIPELINE) {
        const pipeline = redis.pipeline()
        for (const { key, provider, text } of fields.slice(from, from + ROWS_IN_A_PIPELINE)) {
          pipeline.hset(key, provider, text)
        }
        for (const [error] of (await pipeline.exec()) ?? []) if (error) throw error
      }
      return fields.length
    })
  } finally {
    await closeRedis(redis)
  }
}

answerAsBaseline({ write, remove: async () => undefined })
