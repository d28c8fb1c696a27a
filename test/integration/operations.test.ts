/**
 * What operations rest on: every metric that the dashboard and the alert rules name is one that the roles export, and a sink
 * that hangs ends its process.
 */
import { readFileSync } from 'node:fs'
import { expect } from 'chai'
import { connectKafka } from '#infra/kafka/connection.ts'
import { openPublisher } from '#infra/kafka/publisher.ts'
import type { StartRole } from '#infra/runtime/role.ts'
import { OK } from '#streams/runner/outcome.ts'
import { runSink } from '#streams/runner/sink-runner.ts'
import { eventually } from '#test/harness/eventually.ts'
import { ratesRecord } from '#test/harness/published-records.ts'
import { useServers } from '#test/harness/use-servers.ts'

const STALLED_AFTER_MS = 1_200
const fileOf = (name: string): string =>
  readFileSync(new URL(`../../infra/operations/${name}`, import.meta.url), 'utf8')

/** Functions, keywords and label words of PromQL that look like names. */
const NO_METRIC = /^(sum|max|min|by|and|or|on|rate|increase|deriv|changes|time|histogram_quantile|le)$/

/** The names of metrics in an expression: what is outside of labels, strings and functions. */
function metricsIn(expression: string): string[] {
  const bare = expression
    .replaceAll(/\{[^}]*\}/g, '')
    .replaceAll(/\[[^\]]*\]/g, '')
    .replaceAll(/\b(by|on)\s*\([^)]*\)/g, '')
  return (bare.match(/[a-zA-Z_:][a-zA-Z0-9_:]*/g) ?? []).filter(word => !NO_METRIC.test(word) && !/^e\d+$/.test(word))
}

describe('operations', () => {
  const platform = useServers()

  it('show and watch metrics that the roles export, and no others', async () => {
    const roles = await platform.startRoles([
      ...(['fx', 'provider-health', 'sales', 'history', 'candles', 'live-view', 'alert-triggers'] as const),
      ...(['book', 'api', 'feed', 'ingest'] as const),
    ])
    await roles.ready()
    const answer = await fetch(`${roles.operatorUrl}/metrics`)
    const kinds = new Map<string, string>()
    for (const [, name = '', kind = ''] of (await answer.text()).matchAll(/^# TYPE (\S+) (\S+)$/gm))
      kinds.set(name, kind)
    await roles.stop()
    const exported = new Set<string>()
    for (const [name, kind] of kinds) {
      exported.add(name)
      if (kind === 'histogram') for (const part of ['bucket', 'sum', 'count']) exported.add(`${name}_${part}`)
    }
    const rules = [...fileOf('prometheus-rules.yaml').matchAll(/^\s+expr: (.+)$/gm)].map(([, text = '']) => text)
    const dashboard = JSON.parse(fileOf('grafana-dashboard.json')) as { panels: { targets: { expr: string }[] }[] }
    const shown = dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr))
    expect(rules.length).to.be.greaterThan(10)
    expect(shown.length).to.be.greaterThan(20)
    for (const expression of [...rules, ...shown]) {
      const named = metricsIn(expression)
      expect(named, expression).not.to.deep.equal([])
      expect(
        named.filter(name => !exported.has(name)),
        expression,
      ).to.deep.equal([])
    }
  })

  it('name each alert once, with what it means and what to do', () => {
    const rules = fileOf('prometheus-rules.yaml')
    const alerts = [...rules.matchAll(/- alert: (\w+)/g)].map(([, name]) => name)
    expect(new Set(alerts).size).to.equal(alerts.length)
    expect([...rules.matchAll(/^ +summary: ".+"$/gm)]).to.have.length(alerts.length)
    expect([...rules.matchAll(/^ +do: ".+"$/gm)]).to.have.length(alerts.length)
  })

  /** A view whose store takes the first records and then does not answer until it is let go. */
  const hanging = (flushed: number[], takes: number, letGo: Promise<void>): StartRole => {
    return context =>
      runSink(context, connectKafka({ config: context.config, role: 'test', log: context.log }), {
        group: 'fx',
        topics: ['fx'],
        stalledAfterMs: STALLED_AFTER_MS,
        open: async () => ({
          position: undefined,
          apply: () => OK,
          flush(next) {
            if (flushed.length >= takes) return letGo
            flushed.push(next)
            return Promise.resolve()
          },
          close: async () => undefined,
        }),
      })
  }

  const publishRates = async (): Promise<void> => {
    const kafka = platform.connect()
    const publisher = await openPublisher(kafka, 'ingest')
    await publisher.send([ratesRecord(kafka.codec, 1)])
    await publisher.close()
  }

  it('end a role whose sink hangs, and say which records wait', async () => {
    await publishRates()
    const flushed: number[] = []
    const store = Promise.withResolvers<void>()
    const roles = await platform.startRoles([hanging(flushed, 1, store.promise)])
    roles.expectFailure(/^fx does not get on/)
    await eventually(() => flushed.length === 1, 'the first flush')
    const idleFrom = performance.now()
    const lag = async () => {
      const found = await roles.metrics.registry.getSingleMetric('marketlog_group_lag')?.get()
      return found?.values.find(({ labels }) => labels.group === 'fx')?.value
    }
    await eventually(
      async () => performance.now() - idleFrom > 2 * STALLED_AFTER_MS && (await lag()) === 0,
      'a member at rest',
    )
    expect(roles.failures, 'a member that has nothing to do is no member that hangs').to.deep.equal([])
    await publishRates()
    const failure = await eventually(() => roles.failures[0], 'the end of the role')
    expect(failure.message).to.match(/^fx does not get on: 1 records of market\.fx-0 wait from offset \d+ on/)
    expect(await lag()).to.equal(1)
    // A process would have ended by now; this one has to stop its role.
    store.resolve()
    await roles.stop()
  })
})
