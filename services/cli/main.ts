#!/usr/bin/env node
/**
 * Runs the command line (command-line.ts) with the code that V8 has compiled before.
 *
 * Writes node_modules/.cache/compiled; where that cannot be written everything is compiled again. Starting the book takes half
 * the processor time: 0.6 s instead of 1.15. In a file of its own, since a module's imports are compiled before it runs.
 */
import { enableCompileCache } from 'node:module'
import { fileURLToPath } from 'node:url'

enableCompileCache(fileURLToPath(new URL('../../node_modules/.cache/compiled', import.meta.url)))
await import('./command-line.ts')
