import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'

export function readJsonFile<T>(file: string | URL, schema: z.ZodType<T>): T {
  const path = typeof file === 'string' ? file : fileURLToPath(file)
  return parseJson(() => readFileSync(path, 'utf8'), path, schema)
}

/** Reads the content of a file; throws an Error that names file, member and fault. */
export function parseJson<T>(read: () => string, path: string, schema: z.ZodType<T>): T {
  let content: unknown
  try {
    content = JSON.parse(read())
  } catch (error) {
    throw new Error(`cannot read ${path} as JSON: ${(error as Error).message}`)
  }
  const result = schema.safeParse(content)
  if (result.success) return result.data
  throw new Error(`${path} is not valid:\n${z.prettifyError(result.error)}`)
}
