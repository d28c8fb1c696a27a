/** Those that share a loaded market come first, then those that load one each, then those that need none: any other order only loads more often. */
import type { Bench } from './bench.ts'
import { abuse } from './benches/abuse.ts'
import { alerts } from './benches/alerts.ts'
import { book } from './benches/book.ts'
import { candleReads } from './benches/candle-reads.ts'
import { consolePage } from './benches/console.ts'
import { cost } from './benches/cost.ts'
import { feed } from './benches/feed.ts'
import { feedIdle } from './benches/feed-idle.ts'
import { feedResume } from './benches/feed-resume.ts'
import { feedSlow } from './benches/feed-slow.ts'
import { market, marketReads } from './benches/market.ts'
import { portfolio } from './benches/portfolio.ts'
import { reads } from './benches/reads.ts'
import { rebuild } from './benches/rebuild.ts'
import { replay } from './benches/replay.ts'
import { restart } from './benches/restart.ts'
import { revocation } from './benches/revocation.ts'
import { candles, history, liveView } from './benches/sinks.ts'
import { snapshots } from './benches/snapshots.ts'
import { visibility } from './benches/visibility.ts'

export const BENCHES: readonly Bench[] = [
  book,
  liveView,
  snapshots,
  history,
  candles,
  rebuild,
  reads,
  visibility,
  consolePage,
  replay,
  restart,
  abuse,
  cost,
  alerts,
  market,
  marketReads,
  candleReads,
  feed,
  feedIdle,
  feedResume,
  feedSlow,
  portfolio,
  revocation,
]
