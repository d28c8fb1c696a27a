/**
 * Finds what keeps a process alive after the hooks of its tests: sockets, servers, child processes and timers, each with the
 * line that opened it.
 *
 * Keeps the handles that are open, by async_hooks without promises, so that a handle costs one stack trace and nothing else
 * is slower. A handle that was unref'd keeps no process alive and does not count. What {@link untracked} opens belongs to the
 * run and not to a file. `process.getActiveResourcesInfo` gives kinds alone, and no line.
 */
import { AsyncLocalStorage, createHook } from 'node:async_hooks'
import { relative } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

/** What Node's own handles may have. */
interface NodeHandle {
  hasRef?(): boolean
  getsockname?(into: { address?: string; port?: number }): unknown
}

interface Handle {
  kind: string
  resource: WeakRef<NodeHandle>
  opened: Error
}

const KINDS: Record<string, string> = {
  TCPWRAP: 'socket',
  PIPEWRAP: 'pipe',
  UDPWRAP: 'socket',
  TTYWRAP: 'terminal',
  TCPSERVERWRAP: 'server',
  PIPESERVERWRAP: 'server',
  PROCESSWRAP: 'child process',
  Timeout: 'timer',
  WORKER: 'worker',
  FSEVENTWRAP: 'watched file',
  STATWATCHER: 'watched file',
}
const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const FRAMES = 40
const POLL_MS = 20

const open = new Map<number, Handle>()
const isUntracked = new AsyncLocalStorage<true>()

// These pipes exist before any test and would otherwise be opened, and counted, at their first use.
for (const stream of [process.stdin, process.stdout, process.stderr]) stream.once('close', () => undefined)

const hook = createHook({
  init(id, type, _trigger, resource) {
    const kind = KINDS[type]
    if (kind === undefined || isUntracked.getStore()) return
    const { stackTraceLimit } = Error
    Error.stackTraceLimit = FRAMES
    open.set(id, { kind, resource: new WeakRef(resource), opened: new Error(kind) })
    Error.stackTraceLimit = stackTraceLimit
  },
  destroy: id => void open.delete(id),
  trackPromises: false,
})

/** Begins to keep handles. */
export const trackHandles = (): void => void hook.enable()

/** Runs what opens handles that outlive a file: the servers of the run. */
export const untracked = <T>(work: () => T): T => isUntracked.run(true, work)

/** Waits until nothing is open, and names what is after the limit; each of it once, to the file that opened it. */
export async function openHandles(limitMs: number): Promise<string[]> {
  const startedAt = performance.now()
  for (;;) {
    const found = [...open.values()].filter(isAlive)
    if (found.length === 0) return []
    if (performance.now() - startedAt > limitMs) {
      open.clear()
      return found.map(describeHandle)
    }
    await untracked(() => pause(POLL_MS))
  }
}

const isAlive = ({ resource, opened }: Handle): boolean => {
  const handle = resource.deref()
  return handle !== undefined && (handle.hasRef?.() ?? true) && !isOfMocha(opened)
}

/** Mocha's limit of the hook that asks is a timer too. */
const isOfMocha = (opened: Error): boolean => framesOf(opened)[0]?.includes('node_modules/mocha/') ?? false

/** The kind, and the frames of our own code, innermost first; those of packages where there is none. */
function describeHandle({ kind, resource, opened }: Handle): string {
  const local: { address?: string; port?: number } = {}
  resource.deref()?.getsockname?.(local)
  const address = local.port === undefined ? '' : ` on ${local.address}:${local.port}`

  const frames = framesOf(opened)
  const own = frames.filter(frame => !frame.includes('node_modules/'))
  const shown = (own.length > 0 ? own : frames).slice(0, 3)
  return `${kind}${address}, opened ${shown.join(', ') || 'by Node itself'}`
}

const framesOf = ({ stack = '' }: Error): string[] =>
  stack
    .split('\n')
    .slice(1)
    .filter(frame => !frame.includes('node:') && !frame.includes('open-handles.ts'))
    .map(frameText)

const frameText = (frame: string): string => frame.trim().replace(/file:\/\/[^\s)]*/, url => fromUrl(url))

function fromUrl(text: string): string {
  const [, url = text, position = ''] = /^(.*?)((?::\d+)*)$/.exec(text) ?? []
  return `${relative(ROOT, fileURLToPath(url))}${position}`
}
