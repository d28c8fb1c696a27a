import { readFileSync } from 'node:fs'
import { expect } from 'chai'
import { useServers } from '#test/harness/use-servers.ts'

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
      ...(['book', 'api', 'feed', 'ingest', 'alerts'] as const),
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
