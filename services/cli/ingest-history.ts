/**
 * `marketlog ingest history`: publishes a history file as the writer ingest.
 *
 * Writes market.fx and market.day-closes through services/ingest. When it resolves, the log holds everything; running it
 * again changes no view.
 */
import { existsSync } from 'node:fs'
import { loadProviders, type ProviderRegistry } from '#infra/config/providers.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { openPublisher } from '#infra/kafka/publisher.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { type HistoryProgress, type HistoryTotals, ingestHistory, UnusableHistory } from '#services/ingest/commands.ts'
import { CommandFailure, exitCodes } from './command-failure.ts'
import { openProgress } from './progress.ts'
import { listenForStop } from './stop-signals.ts'

const BAR_WIDTH = 24

/** Publishes a file and prints the totals. */
export async function ingestHistoryFile(
  config: PlatformConfig,
  log: Log,
  { file, provider }: { file: string; provider?: string },
): Promise<void> {
  const providers = loadProviders(config.providersFile)
  if (!existsSync(file)) throw new CommandFailure(`there is no file ${file}`, exitCodes.badInput)
  if (provider !== undefined && !providers.byKey.has(provider)) {
    const known = providers.askKeys.join(', ')
    throw new CommandFailure(`no provider is called ${provider}. There are ${known}`, exitCodes.usage)
  }
  const progress = openProgress(process.stderr)
  const stop = listenForStop(() => progress.step('stopping at the end of a portion'))
  const kafka = connectKafka({ config, role: 'ingest-history', log })
  const publisher = await openPublisher(kafka, 'ingest')
  try {
    const totals = await ingestHistory({
      ...{ kafka, publisher, file, signal: stop.signal },
      providerOf: currency => provider ?? providerOfCurrency(providers, currency),
      onProgress: at => progress.step(textOf(at)),
    })
    for (const line of summaryOf(totals, provider === undefined)) progress.note(line)
  } catch (error) {
    if (stop.signal.aborted) throw new CommandFailure('stopped before the end', exitCodes.stoppedBySignal, error)
    if (error instanceof UnusableHistory)
      throw new CommandFailure(`${file}: ${error.message}`, exitCodes.badInput, error)
    throw error
  } finally {
    progress.stop()
    await publisher.close()
  }
}

/** The first provider that quotes in a currency. */
function providerOfCurrency({ all }: ProviderRegistry, currency: string): string {
  const found = all.find(({ default_currency }) => default_currency === currency)
  if (found) return found.key
  throw new CommandFailure(
    `no provider quotes in ${currency || 'the currency of the file'}: name one with --provider`,
    exitCodes.usage,
  )
}

function textOf({ step, done, total }: HistoryProgress): string {
  if (total === undefined) return `${step}: ${done.toLocaleString('en')} rows`
  const share = total === 0 ? 1 : done / total
  const bar = '█'.repeat(Math.round(share * BAR_WIDTH)).padEnd(BAR_WIDTH, '░')
  return `${step}: ${bar} ${Math.floor(share * 100)} % of ${total.toLocaleString('en')} closes`
}

function summaryOf({ provider, names, closes, rejected }: HistoryTotals, isChosenByCurrency: boolean): string[] {
  const by = isChosenByCurrency ? ' (the first provider with prices in that currency; --provider names another)' : ''
  return [
    `published ${closes.toLocaleString('en')} daily closes of ${names.toLocaleString('en')} names as ${provider}${by}`,
    ...[...rejected].map(([reason, count]) => `${count.toLocaleString('en')} rows left out: ${reason}`),
  ]
}
