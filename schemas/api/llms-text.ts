/**
 * llms.txt: the API in one page of plain text for programs that read prose, made of the same operations.
 *
 * Form: llmstxt.org. Invariant: it names every guide and operation, with the tiers and parameters of each, and leads to the
 * whole description.
 */
import { type Operation, referenceAnchor } from './operation.ts'

/** Writes the page; `baseUrl` is the public root, without a trailing slash. */
export function llmsText(
  operations: readonly Operation[],
  guides: readonly { name: string; title: string; lead: string }[],
  baseUrl: string,
): string {
  const groups = Map.groupBy(operations, ({ group }) => group)
  const chapters = [...groups].map(
    ([group, members]) => `## ${group}\n\n${members.map(one => lineOf(one, baseUrl)).join('\n')}`,
  )
  return `# marketlog

> Market data of 41 marketplaces through one REST interface: asks, buy orders, sales, candles, history, catalog.

Send \`Authorization: Bearer <API_KEY>\` with every request. Amounts are integers in hundredths of the currency.
Times are ISO 8601 in UTC. Errors are JSON with \`code\` and \`detail\`; on 429 and 409 wait as \`Retry-After\` says.
Every GET takes \`strict=true\` as well, which refuses parameters that it does not know.

- [OpenAPI 3.1](${baseUrl}/v1/openapi.json): every parameter, answer and error
- [Reference](${baseUrl}/v1/docs/reference): the same to browse

## Guides

${guides.map(({ name, title, lead }) => `- [${title}](${baseUrl}/v1/docs/${name}): ${lead}`).join('\n')}

${chapters.join('\n\n')}
`
}

function lineOf(operation: Operation, baseUrl: string): string {
  const { method, path, summary, tiers, query, body } = operation
  const names = [query, body].flatMap(schema => (schema ? Object.keys(schema.shape) : []))
  const access = tiers ? `tiers ${tiers.join(', ')}` : 'no key'
  const members = names.length > 0 ? `; takes ${names.join(', ')}` : ''
  const link = `${baseUrl}/v1/docs/reference#${referenceAnchor(operation)}`
  return `- [${method.toUpperCase()} /v1${path}](${link}): ${summary} (${access}${members})`
}
