import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { z } from 'zod'

export function readJsonFile<T>(file: string | URL, schema: z.ZodType<T>): T {
  const path = typeof file === 'string' ? file : fileURLToPath(file)
  const result = schema.safeParse(parsed(path))
  if (result.success) return result.data
  const faults = result.error.issues.map(issue => `  ${member(issue.path)}: ${issue.message}`)
  throw new Error(`${path} is not valid:\n${faults.join('\n')}`)
}

function parsed(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new Error(`cannot read ${path} as JSON: ${reason}`)
  }
}

/** `providers[3].fees.sell_fee`, as one would write it in code. */
function member(path: readonly PropertyKey[]): string {
  if (path.length === 0) return 'the whole file'
  return path
    .map((step, i) => (typeof step === 'number' ? `[${step}]` : `${i === 0 ? '' : '.'}${String(step)}`))
    .join('')
}
