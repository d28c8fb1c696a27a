/**
 * Runs a tool to its end: package managers, initialisers, archive tools.
 *
 * Writes the tool's output to a log file when one is given. Invariant: a run ends by itself, at its time limit or
 * on abort, and takes its whole process group with it. Servers are launch.ts's.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, openSync } from 'node:fs'
import { delimiter, join } from 'node:path'

/** The tool's standard output; throws with the end of its output when it fails, or with the abort's reason. */
export async function runTool(run: {
  command: string
  args: string[]
  /** Default: this process's own. */
  environment?: Record<string, string | undefined>
  limitMs: number
  signal: AbortSignal
  logFile?: string
  directory?: string
  input?: string
  uid?: number
  gid?: number
}): Promise<string> {
  run.signal.throwIfAborted()
  const log = run.logFile === undefined ? undefined : openSync(run.logFile, 'a')
  const limit = AbortSignal.timeout(run.limitMs)
  try {
    const child = spawn(run.command, run.args, {
      cwd: run.directory,
      env: run.environment,
      uid: run.uid,
      gid: run.gid,
      detached: true,
      stdio: ['pipe', log ?? 'pipe', log ?? 'pipe'],
    })
    AbortSignal.any([run.signal, limit]).addEventListener('abort', () => killGroup(child), { once: true })
    const written: Buffer[] = []
    child.stdin?.on('error', () => {}).end(run.input ?? '')
    for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk: Buffer) => written.push(chunk))
    const [code, signal] = await once(child, 'close')
    const output = Buffer.concat(written).toString()
    if (code === 0) return output
    run.signal.throwIfAborted()
    if (limit.aborted) throw new Error(`${run.command} did not end within ${run.limitMs / 1000} s`)
    throw new Error(`${run.command} ended with ${signal ?? `exit code ${code}`}${endOf(output)}`)
  } finally {
    if (log !== undefined) closeSync(log)
  }
}

function killGroup(child: ChildProcess): void {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
  try {
    process.kill(-child.pid, 'SIGKILL')
  } catch {
    child.kill('SIGKILL')
  }
}

function endOf(output: string): string {
  const lines = output.trimEnd().split('\n').slice(-10)
  return output.trim() === '' ? '' : `:\n${lines.join('\n')}`
}

export const onPath = (environment: Readonly<Record<string, string | undefined>>, program: string): string[] =>
  (environment.PATH ?? '')
    .split(delimiter)
    .map(directory => join(directory, program))
    .filter(path => existsSync(path))
