import { defineTableView } from '#streams/runner/define-view.ts'
import { fxDays } from './table.ts'

/** Exchange rates (market.fx) of each day, the newest day's last among them, in ClickHouse. */
export const view = defineTableView({
  name: 'fx',
  topics: ['fx'],
  process: 'path',
  tables: [{ table: fxDays, origins: [{ topic: 'fx', partition: '0', isBefore: version => `version < ${version}` }] }],
  async open(_topic, batcher) {
    const { openFxFold } = await import('./fold.ts')
    return openFxFold(batcher)
  },
})
