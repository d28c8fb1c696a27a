/**
 * Parts of the pinned kafkajs that its package does not export: loaded by file, and replaced before anything else loads them.
 *
 * Only this folder and the tests that compare a correction with its original may import it (infra/checks/dependency-cruiser.cjs).
 */
import { createRequire } from 'node:module'
import type * as kafkajs from 'kafkajs'

const load = createRequire(import.meta.url)

export const loadClient = (): typeof kafkajs => load('kafkajs') as typeof kafkajs

export const loadInternal = (path: string): unknown => load(`kafkajs/src/${path}`)

export function replaceExport<T>(path: string, replace: (original: T) => unknown): void {
  const file = load.resolve(`kafkajs/src/${path}`)
  const original = load(file) as T
  const cached = load.cache[file]
  if (!cached) throw new Error('kafkajs was not loaded from files: its corrections cannot be applied')
  cached.exports = replace(original)
}
