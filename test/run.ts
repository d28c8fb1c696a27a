/**
 * Runs a suite: `node test/run.ts SUITE [FILE…]`, with what it prints kept in .run/test-log/SUITE.log, beside the logs of its servers.
 *
 * The gate runs in workers, the folder of its longest file first and the short unit tests last, always with the same seed. The other
 * suites run one file after the other; `fault` and `soak` draw a seed, which SEED repeats.
 */
import { spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { createWriteStream, globSync, mkdirSync, rmSync } from 'node:fs'
import { pipeline } from 'node:stream/promises'

interface Suite {
  folders: readonly string[]
  files?: readonly string[]
  options?: readonly string[]
  environment?: NodeJS.ProcessEnv
}

const LOGS = '.run/test-log'

const draw = (): NodeJS.ProcessEnv => ({ SEED: process.env.SEED || String(randomInt(2 ** 31)) })
const SUITES: Record<string, () => Suite> = {
  gate: () => ({ folders: ['contract', 'integration', 'unit'], options: ['--parallel', '--jobs', '3'] }),
  e2e: () => ({ folders: ['e2e'] }),
  fault: () => ({ folders: ['fault'], environment: draw() }),
  soak: () => ({ folders: ['fault'], environment: { ...draw(), FAULT: 'long' } }),
  full: () => ({
    folders: [],
    files: ['test/integration/recorded-files.test.ts'],
    options: ['--node-option', 'max-old-space-size=12288'],
    environment: { SIZE: 'full' },
  }),
}

const [name = '', ...only] = process.argv.slice(2)
const open = SUITES[name]
if (open === undefined) throw new Error(`there is no suite "${name}"; there are ${Object.keys(SUITES).join(', ')}`)
const { folders, files: named = [], options = [], environment = {} } = open()
const files = folders.flatMap(folder => globSync(`test/${folder}/**/*.test.ts`).toSorted())

rmSync(LOGS, { recursive: true, force: true })
mkdirSync(LOGS, { recursive: true })
if (environment.SEED !== undefined) console.log(`seed ${environment.SEED} (SEED=${environment.SEED} repeats it)`)
const mocha = spawn('mocha', [...options, ...(only.length > 0 ? only : [...named, ...files])], {
  env: { ...process.env, MARKETLOG_TEST_LOGS: LOGS, ...environment },
  stdio: ['ignore', 'pipe', 'inherit'],
})
mocha.stdout.pipe(process.stdout)
const [code] = await Promise.all([
  new Promise<number>(resolve => mocha.once('close', (ended, signal) => resolve(ended ?? (signal ? 1 : 0)))),
  pipeline(mocha.stdout, createWriteStream(`${LOGS}/${name}.log`)),
])
process.exitCode = code
