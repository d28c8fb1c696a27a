/** Reads what `npm audit --json` and `npm audit signatures --json` print; anything else than a report is no answer. */

/** What is against packages, a line each; `unavailable` when the registry did not say. */
export type AuditOutcome = readonly string[] | 'unavailable'

/** Advisories by package. */
export function advisoriesOf(printed: string): AuditOutcome {
  const report = parsed(printed)
  const { vulnerabilities } = report
  if (!('auditReportVersion' in report) || !isObject(vulnerabilities)) return 'unavailable'
  return Object.entries(vulnerabilities).map(([name, one]) => `${name}: ${isObject(one) ? one.severity : 'unknown'}`)
}

/** Packages whose signature is missing or wrong. */
export function signaturesOf(printed: string): AuditOutcome {
  const { invalid, missing } = parsed(printed)
  if (!Array.isArray(invalid) || !Array.isArray(missing)) return 'unavailable'
  const lines = (what: string, packages: { name: string; version: string }[]) =>
    packages.map(({ name, version }) => `${name}@${version}: ${what}`)
  return [...lines('wrong signature', invalid), ...lines('no signature', missing)]
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null

function parsed(printed: string): Record<string, unknown> {
  try {
    const report: unknown = JSON.parse(printed)
    return isObject(report) ? report : {}
  } catch {
    return {}
  }
}
