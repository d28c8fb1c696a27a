/**
 * Compares the exchange rates of each day with the tables of the log.
 *
 * Rows are read first and the log after them, so a row may also be of a table that the log took meanwhile. Every question goes through
 * all usable tables. A currency that a day's last table lacks may have its row of an earlier one, as records were batched.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import { decodeUnlessPoison, type LogAccess, rangesOf } from '#infra/kafka/log-access.ts'
import { scanTopic } from '#infra/kafka/topic-scan.ts'
import type { FxRatesPublished } from '#schemas/events/fx-rates-published.ts'
import { CLOCK_SLACK_MS } from '#schemas/values/event-time.ts'
import { parseRate } from '#schemas/values/money.ts'
import { unstorable } from '#schemas/values/storable.ts'
import { CAME_MEANWHILE, compare, type Findings, leaveOut, noFindings } from '#streams/runner/verify/findings.ts'
import { viewPosition } from '#streams/runner/verify/item-changes.ts'
import { withTables } from '#streams/runner/verify/with-tables.ts'
import type { VerifyTask } from '#streams/runner/view.ts'

/** A usable table of the log. */
interface LogTable {
  offset: number
  asOf: number
  rates: Record<string, string>
}

/** The rate of a currency on a day, its number since 1970. */
interface DayRow {
  day: number
  currency: string
  rate: string
  as_of: number
}

const DAY_MS = 86_400_000
const dayOf = (at: number): number => Math.floor(at / DAY_MS)

/** Compares all days. */
export async function verifyRates(task: VerifyTask): Promise<Findings> {
  const { access, report } = task
  const findings = noFindings()
  report('reading the days')
  const { rows, next } = await withTables(task, async tables => ({
    next: (await viewPosition(tables, 'fx', { topic: 'fx', partition: 0 })).next,
    rows: await readDayRows(tables),
  }))
  report('reading the log')
  const { start, tables } = await readTables(access)
  const reflected = tables.filter(({ offset }) => offset < next)
  compareDays(findings, rows, { tables, reflected, start })
  return findings
}

/** All rows, of each currency and day the one that counts. */
const readDayRows = (tables: ClickhouseReader): Promise<DayRow[]> =>
  tables.rows<DayRow>(
    `SELECT toUInt32(fx.day) AS day, currency, rate, toUnixTimestamp64Milli(fx.as_of) AS as_of
    FROM ${tables.database}.fx_days AS fx FINAL ORDER BY fx.day, currency`,
  )

function compareDays(
  findings: Findings,
  rows: readonly DayRow[],
  { tables, reflected, start }: { tables: readonly LogTable[]; reflected: readonly LogTable[]; start: number },
): void {
  const all = Map.groupBy(tables, ({ asOf }) => dayOf(asOf))
  const found = new Map(rows.map(row => [`${row.day} ${row.currency}`, row]))
  // Of the first day that the log holds it may lack what came before.
  const firstDay = Math.min(...all.keys())
  const expected = new Map<string, string>()
  for (const [day, some] of Map.groupBy(reflected, ({ asOf }) => dayOf(asOf))) {
    const { asOf, rates } = latestOf(some) as LogTable
    for (const [currency, rate] of Object.entries(rates)) expected.set(`${day} ${currency}`, `${rate} at ${asOf}`)
  }
  for (const key of new Set([...expected.keys(), ...found.keys()])) {
    const row = found.get(key)
    const text = row && `${row.rate} at ${row.as_of}`
    const isOf = ({ asOf, rates }: LogTable): boolean => asOf === row?.as_of && rates[row.currency] === row.rate
    const source = row && text !== expected.get(key) ? (all.get(row.day) ?? []).find(isOf) : undefined
    if (source && source.offset >= reflectedEnd(reflected)) leaveOut(findings, CAME_MEANWHILE)
    else if (source && !expected.has(key)) leaveOut(findings, "are of a table before their day's last")
    else if (row && start > 0 && !(row.day > firstDay))
      leaveOut(findings, 'may rest on records that the log no longer holds')
    else compare(findings, `day ${key}`, expected.get(key), text)
  }
}

const reflectedEnd = (reflected: readonly LogTable[]): number => (reflected.at(-1)?.offset ?? -1) + 1

/** The newest table; of two as new the later in the log. */
const latestOf = (tables: readonly LogTable[]): LogTable | undefined =>
  tables.toSorted((a, b) => a.asOf - b.asOf || a.offset - b.offset).at(-1)

async function readTables(access: LogAccess): Promise<{ start: number; tables: LogTable[] }> {
  const { topic, ranges } = await rangesOf(access, 'fx', undefined)
  const tables: LogTable[] = []
  for await (const page of scanTopic(access.reader, topic, ranges)) {
    for (const { offset, timestamp, value } of page) {
      const decoded = value && (await decodeUnlessPoison(access.kafka.codec, value))
      if (decoded?.event !== 'FxRatesPublished') continue
      const { as_of: asOf, rates }: FxRatesPublished = decoded.value
      const isUsable = rates.USD === '1' && Object.values(rates).every(text => parseRate(text) !== undefined)
      if (isUsable && !unstorable(0, asOf) && asOf - timestamp <= CLOCK_SLACK_MS) tables.push({ offset, asOf, rates })
    }
  }
  return { start: ranges.get(0)?.from ?? 0, tables }
}
