import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'

export function readJsonFile<T>(file: string | URL, schema: z.ZodType<T>): T {
  const path = typeof file === 'string' ? file : fileURLToPath(file)
  const result = schema.safeParse(parsed(path))
  if (result.success) return result.data
  throw new Error(`${path} is not valid:\n${z.prettifyError(result.error)}`)
}

function parsed(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new Error(`cannot read ${path} as JSON: ${reason}`)
  }
}
