/**
 * Runs a tool to its end: package managers, initialisers, archive tools.
 *
 * Writes the tool's output to a log file when one is given. Invariant: a run ends by itself, at its time limit or
 * on abort, and takes its whole process group with it. Servers are launch.ts's.
 */
import { spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'

/** A tool's run: complete command, limits and where its output goes. */
interface OneShot {
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
}

/** The tool's standard output; throws with the end of its output when it fails, or with the abort's reason. */
export async function runTool(run: OneShot): Promise<string> {
  run.signal.throwIfAborted()
  const log = run.logFile === undefined ? undefined : openSync(run.logFile, 'a')
  const limit = AbortSignal.timeout(run.limitMs)
  const ended = AbortSignal.any([run.signal, limit])
  try {
    return await new Promise<string>((resolve, reject) => {
      const child = spawn(run.command, run.args, {
        cwd: run.directory,
        env: run.environment,
        detached: true,
        stdio: ['pipe', log ?? 'pipe', log ?? 'pipe'],
        uid: run.uid,
        gid: run.gid,
      })
      const written: Buffer[] = []
      const kill = () => {
        if (child.pid === undefined || child.exitCode !== null) return
        try {
          process.kill(-child.pid, 'SIGKILL')
        } catch {
          child.kill('SIGKILL')
        }
      }
      ended.addEventListener('abort', kill, { once: true })
      child.stdin?.on('error', () => {})
      child.stdin?.end(run.input ?? '')
      child.stdout?.on('data', (chunk: Buffer) => written.push(chunk))
      child.stderr?.on('data', (chunk: Buffer) => written.push(chunk))
      child.once('error', reject)
      child.once('close', (code, signal) => {
        ended.removeEventListener('abort', kill)
        const output = Buffer.concat(written).toString()
        if (code === 0) resolve(output)
        else if (run.signal.aborted) reject(run.signal.reason)
        else if (limit.aborted) reject(new Error(`${run.command} did not end within ${run.limitMs / 1000} s`))
        else reject(new Error(`${run.command} ended with ${signal ?? `exit code ${code}`}${endOf(output)}`))
      })
    })
  } finally {
    if (log !== undefined) closeSync(log)
  }
}

function endOf(output: string): string {
  const lines = output.trimEnd().split('\n').slice(-10)
  return output.trim() === '' ? '' : `:\n${lines.join('\n')}`
}
