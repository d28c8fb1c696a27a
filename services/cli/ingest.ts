/** Publishes from the command line, as the writer ingest; when a function here resolves, the log holds everything. */
import { existsSync, readdirSync } from 'node:fs'
import { loadProviders, type ProviderRegistry } from '#infra/config/providers.ts'
import { connectKafka, type KafkaConnection } from '#infra/kafka/connection.ts'
import { openPublisher, type Publisher } from '#infra/kafka/publisher.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import {
  ingestHistory,
  ingestRecorded,
  publishConfiguredRates,
  SourceIsRun,
  UnusableHistory,
} from '#services/ingest/commands.ts'
import { CommandFailure, exitCodes } from './command-failure.ts'
import type { CommandContext } from './output.ts'
import { type Progress, withProgress } from './progress.ts'
import { listenForStop } from './stop-signals.ts'

export async function publishCurrentRates(config: PlatformConfig, log: Log, signal: AbortSignal): Promise<void> {
  await withPublisher(config, log, 'rates', ({ codec }, publisher) =>
    publishConfiguredRates(config, log, signal, { codec, publisher }),
  )
}

async function withPublisher<T>(
  config: PlatformConfig,
  log: Log,
  role: string,
  work: (kafka: KafkaConnection, publisher: Publisher) => Promise<T>,
): Promise<T> {
  const kafka = connectKafka({ config, role, log })
  const publisher = await openPublisher(kafka, 'ingest')
  try {
    return await work(kafka, publisher)
  } finally {
    await publisher.close()
  }
}

export async function ingestFolder(
  { config, log }: CommandContext,
  folder: { provider: string; dir: string; side: 'ask' | 'bid' },
): Promise<void> {
  const providers = loadProviders(config.providersFile)
  const { provider: key, dir, side } = folder
  const keys = side === 'ask' ? providers.askKeys : providers.bidKeys
  const provider = providers.byKey.get(key)
  if (!provider || !keys.includes(key)) {
    throw new CommandFailure(`no provider of ${side}s is called ${key}. There are ${keys.join(', ')}`, exitCodes.usage)
  }
  const names = existsSync(dir) ? readdirSync(dir) : []
  if (!names.some(name => /\.json(\.gz)?$/.test(name))) {
    throw new CommandFailure(`${dir} is no folder with *.json.gz files`, exitCodes.badInput)
  }
  await untilPublished(dir, 'record', async (progress, signal) => {
    progress.step('publishing')
    const report = (line: string) => (line.includes(': ') ? progress.note(line) : progress.step(`publishing: ${line}`))
    const totals = await withPublisher(config, log, 'ingest-recorded', async (kafka, publisher) => {
      const rates = await publishConfiguredRates(config, log, signal, { codec: kafka.codec, publisher })
      return ingestRecorded({ ...folder, kafka, provider, rates, report, signal })
    })
    progress.note(
      `published ${totals.refreshes} refreshes with ${totals.observations.toLocaleString('en')} observations` +
        (totals.rejected > 0 ? `, ${totals.rejected.toLocaleString('en')} entries rejected` : '') +
        (totals.failed > 0 ? `, ${totals.failed} files failed` : ''),
    )
    if (totals.failed > 0) throw new CommandFailure(`${totals.failed} files could not be read`, exitCodes.badInput)
  })
}

export async function ingestHistoryFile(
  { config, log }: CommandContext,
  { file, provider }: { file: string; provider?: string },
): Promise<void> {
  const providers = loadProviders(config.providersFile)
  if (!existsSync(file)) throw new CommandFailure(`there is no file ${file}`, exitCodes.badInput)
  if (provider !== undefined && !providers.byKey.has(provider)) {
    const keys = providers.askKeys.join(', ')
    throw new CommandFailure(`no provider is called ${provider}. There are ${keys}`, exitCodes.usage)
  }
  await untilPublished(file, 'portion', async (progress, signal) => {
    const providerOf = (currency: string) => provider ?? providerOfCurrency(providers, currency)
    const totals = await withPublisher(config, log, 'ingest-history', (kafka, publisher) =>
      ingestHistory({ kafka, publisher, file, signal, providerOf, report: progress.step }),
    )
    const how = provider ? '' : ' (the first provider with prices in that currency; --provider names another)'
    const [closes, names] = [totals.closes.toLocaleString('en'), totals.names.toLocaleString('en')]
    progress.note(`published ${closes} daily closes of ${names} names as ${totals.provider}${how}`)
    for (const [reason, count] of totals.rejected)
      progress.note(`${count.toLocaleString('en')} rows left out: ${reason}`)
  })
}

async function untilPublished(
  path: string,
  unit: string,
  work: (progress: Progress, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  await withProgress(async progress => {
    const { signal } = listenForStop(() => progress.step(`stopping at the end of a ${unit}`))
    await work(progress, signal).catch(error => {
      if (signal.aborted) throw new CommandFailure('stopped before the end', exitCodes.stoppedBySignal, error)
      if (error instanceof SourceIsRun) throw new CommandFailure(error.message, exitCodes.inUse, error)
      if (error instanceof UnusableHistory)
        throw new CommandFailure(`${path}: ${error.message}`, exitCodes.badInput, error)
      throw error
    })
  })
}

function providerOfCurrency({ all }: ProviderRegistry, currency: string): string {
  const provider = all.find(({ default_currency }) => default_currency === currency)
  if (provider) return provider.key
  throw new CommandFailure(
    `no provider quotes in ${currency || 'the currency of the file'}: name one with --provider`,
    exitCodes.usage,
  )
}
