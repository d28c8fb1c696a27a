import { readdirSync } from 'node:fs'
import { join } from 'node:path'

/** Folders that no clone holds, or that are not ours. */
const OUTSIDE = new Set(['node_modules', '.git', '.run'])

/** The folders that hold code. */
export const ROOMS = ['schemas', 'infra', 'streams', 'services', 'test'] as const

/** A source file. */
export interface SourceFile {
  path: string
  text: string
}

/** Names at the top of a tree. */
export function topLevel(root: string): string[] {
  return readdirSync(root).filter(name => !OUTSIDE.has(name))
}

/** Paths of all files of the rooms below a root, sorted. */
export function listFiles(root: string): string[] {
  const found: string[] = []
  const walk = (folder: string) => {
    for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
      const path = `${folder}/${entry.name}`
      if (entry.isDirectory() && !OUTSIDE.has(entry.name)) walk(path)
      else if (entry.isFile()) found.push(path)
    }
  }
  for (const room of topLevel(root).filter(name => (ROOMS as readonly string[]).includes(name))) walk(room)
  return found.sort()
}

/** Whether a path holds code of ours. */
export const isSource = (path: string): boolean => /\.(ts|js|mjs|cjs)$/.test(path)
