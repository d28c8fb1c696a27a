/** The environment is exactly the given one, so nothing of the test's own reaches the command. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { eventually } from './eventually.ts'

export interface Finished {
  code: number | null
  stdout: string
  stderr: string
}

export const MAIN = fileURLToPath(new URL('../../services/cli/main.ts', import.meta.url))
const LIMIT_MS = 300_000

/** Runs a command to its end; one that takes longer than the limit is killed and has no code. */
export function runCommand(
  args: readonly string[],
  environment: Record<string, string | undefined>,
): Promise<Finished> {
  return runToEnd(process.execPath, [MAIN, ...args], environment)
}

/** Runs a command on a terminal of so many columns; what it wrote is one text, in `stdout`. */
export function runOnTerminal(
  args: readonly string[],
  environment: Record<string, string | undefined>,
  columns: number,
): Promise<Finished> {
  const words = [process.execPath, MAIN, ...args].map(word => `'${word}'`).join(' ')
  const onTerminal = `stty cols ${columns} rows 50; exec ${words}`
  return runToEnd('script', ['-qefc', onTerminal, '/dev/null'], { TERM: 'xterm-256color', ...environment })
}

/** Runs a program until its output is as expected, then kills it and what it has started; rejects when it ends before. */
export async function runUntilPrinted(
  isPrinted: (output: string) => boolean,
  [program = '', ...args]: readonly string[],
  options: { cwd: string; env: NodeJS.ProcessEnv },
): Promise<void> {
  const child = spawn(program, args, { ...options, detached: true })
  let printed = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      printed += text
    })
  const end = once(child, 'close')
  try {
    await Promise.race([eventually(() => isPrinted(printed), `what ${program} prints`), end])
    if (!isPrinted(printed)) throw new Error(`it has ended with ${child.exitCode}: ${printed.slice(-500)}`)
  } finally {
    if (child.exitCode === null) process.kill(-(child.pid as number), 'SIGKILL')
    await end
  }
}

export function runToEnd(
  program: string,
  args: readonly string[],
  environment: Record<string, string | undefined>,
): Promise<Finished> {
  const child = spawn(program, args, { env: environment, stdio: ['ignore', 'pipe', 'pipe'] })
  const written = { stdout: '', stderr: '' }
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    written.stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    written.stderr += text
  })
  const limit = setTimeout(() => child.kill('SIGKILL'), LIMIT_MS)
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', code => {
      clearTimeout(limit)
      resolve({ code, ...written })
    })
  })
}
