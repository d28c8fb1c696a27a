/**
 * What operations rest on: every metric that the dashboard and the alert rules name is one that the roles export, and a sink
 * that hangs ends its process.
 */
import { readFileSync } from 'node:fs'
import { expect } from 'chai'
import { connectKafka } from '#infra/kafka/connection.ts'
import type { StartRole } from '#infra/runtime/role.ts'
import { OK } from '#streams/runner/outcome.ts'
import { runSink } from '#streams/runner/sink-runner.ts'
import { eventually } from '#test/harness/eventually.ts'
import { ratesRecord } from '#test/harness/published-records.ts'
import type { StartedRoles } from '#test/harness/start-roles.ts'
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
      ...(['book', 'api', 'feed', 'ingest', 'accounts'] as const),
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
})

describe('a sink that hangs', () => {
  // Its own: rates that another role published before would be counted, or not, by how far they had been read.
  const platform = useServers()
  const store = Promise.withResolvers<void>()
  // A process would have ended; the roles of this one have to be stopped.
  after(() => store.resolve())

  /** A sink whose store does not answer. */
  const hanging = (group: 'fx' | 'sales'): StartRole => {
    return context =>
      runSink(context, connectKafka({ config: context.config, role: 'test', log: context.log }), {
        group,
        topics: [group],
        stalledAfterMs: STALLED_AFTER_MS,
        open: async ({ topic }) => ({
          position: { topicId: await (await context.topicIds()).idOf(topic), next: 0 },
          apply: () => OK,
          flush: () => store.promise,
          close: async () => undefined,
        }),
      })
  }

  const lagOf = async ({ metrics }: StartedRoles, group: string) => {
    const found = await metrics.registry.getSingleMetric('marketlog_group_lag')?.get()
    return found?.values.find(({ labels }) => labels.group === group)?.value
  }

  it('ends its role, which says which records wait; one that has nothing to do goes on', async () => {
    const idle = await platform.startRoles([hanging('sales')])
    await eventually(async () => (await lagOf(idle, 'sales')) === 0, 'a member at rest')
    const kafka = platform.connect()
    const publisher = await platform.openPublisher(kafka, 'ingest')
    await publisher.send([ratesRecord(kafka.codec, 1)])
    const roles = await platform.startRoles([hanging('fx')])
    roles.expectFailure(/^fx does not get on/)
    const failure = await eventually(() => roles.failures[0], 'the end of the role')
    expect(failure.message).to.match(/^fx does not get on: 1 records of market\.fx-0 wait from offset \d+ on/)
    expect(await lagOf(roles, 'fx')).to.equal(1)
    // It has been watched for longer.
    expect(idle.failures).to.deep.equal([])
  })
})
